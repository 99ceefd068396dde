"""Credentials that expire, refreshed without holding calls up for as long as they are valid."""

from __future__ import annotations

from typing import Any

from aiobotocore.credentials import AioCredentials, AioRefreshableCredentials

from headgate.jobs.aws.connections.shared_look_up import MOST_S, SharedLookUp

PATIENCE_S = 1.0
"""Seconds for which calls wait for a refresh while the credentials are valid: most sources answer
within them."""


class ExpiringCredentials(AioCredentials):
    """A stand-in for botocore's refreshable credentials.

    botocore refreshes them from 15 minutes before they expire, in the call that comes first, and
    for the last 10 minutes lets no call pass without. If the source hangs, so do the calls; if that
    is a heartbeat, its jobs start elsewhere as well. Here calls share one refresh, and wait for it
    no longer than `PATIENCE_S` until the credentials have expired.

    Args:
        known: botocore's.
    """

    def __init__(self, known: AioRefreshableCredentials) -> None:
        super().__init__("", "", method=known.method)
        self._known: Any = known  # botocore's stubs lack what is used here
        self._refresh = SharedLookUp(self._known.get_frozen_credentials)

    async def get_frozen_credentials(self) -> Any:  # type: ignore[override]  # as aiobotocore's own
        """Return one consistent set of credentials.

        Raises:
            BotoCoreError: they have expired, and can't be refreshed.
        """
        if self._known.refresh_needed():
            if self._is_over():
                await self._renewed()
            else:
                await self._refresh.attempt(PATIENCE_S)
        return self._known._frozen_credentials  # noqa: SLF001 - botocore's way refreshes them first

    async def get_account_id(self) -> str | None:  # type: ignore[override]  # as refreshable ones
        """Return the account that they belong to, if they name it."""
        account: str | None = (await self.get_frozen_credentials()).account_id
        return account

    def _is_over(self) -> bool:
        """Return True once they have expired, or while there are none."""
        over: bool = self._known.refresh_needed(0)
        return over

    async def _renewed(self) -> None:
        # botocore hides the failure of a refresh that began well before they expired.
        while self._is_over():
            await self._refresh.ended(MOST_S)
