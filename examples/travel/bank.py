"""The bank that payments go through, and one in memory."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol


class CardDeclined(Exception):
    """The bank declined, and would decline again."""


class BankError(Exception):
    """The bank answered with an error; its status tells whether another attempt may help."""

    def __init__(self, status: HTTPStatus) -> None:
        self.status_code = status
        super().__init__(f"the bank answered {status.value} {status.phrase}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Money that moved: positive to the platform, negative back to the guest."""

    booking: str
    cents: int


class Bank(Protocol):
    """The calls that the platform makes. Each may raise a `BankError`.

    ``key`` makes a call safe to repeat: the bank carries it out once, and answers alike.
    """

    async def charge(self, key: str, booking: str, card: str, cents: int) -> str:
        """Take money; returns the receipt's number.

        Raises:
            CardDeclined: it would fail again.
        """
        ...

    async def refund(self, key: str, booking: str, cents: int) -> str:
        """Give money back; returns the receipt's number."""
        ...


class LocalBank:
    """A `Bank` in this process's memory. It declines cards that begin with 0."""

    def __init__(self) -> None:
        self.transfers: dict[str, Transfer] = {}
        """The payments that were carried out, by key."""
        self.is_down = False

    async def charge(self, key: str, booking: str, card: str, cents: int) -> str:
        if card.startswith("0"):
            raise CardDeclined(booking)
        return self._book(key, Transfer(booking=booking, cents=cents))

    async def refund(self, key: str, booking: str, cents: int) -> str:
        return self._book(key, Transfer(booking=booking, cents=-cents))

    def _book(self, key: str, transfer: Transfer) -> str:
        if self.is_down:
            raise BankError(HTTPStatus.SERVICE_UNAVAILABLE)
        self.transfers.setdefault(key, transfer)
        return f"receipt-{[*self.transfers].index(key) + 1}"
