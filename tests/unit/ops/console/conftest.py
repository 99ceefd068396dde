"""A shop in memory, and a browser that looks at its console."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from pydantic import BaseModel

from headgate import App, Breaker, Client, DoNotRetry, Priority, RateLimit, Retry
from headgate.ops.console import reader
from headgate.ops.console.access.rules import LOOPBACK_HOSTS, everybody
from headgate.ops.console.app import console
from headgate.testing import Harness
from tests.support.console import MARKUP, Browser


class Email(BaseModel):
    to: str


class Looks:
    """Looks in the background, made at once unless they are to wait."""

    def __init__(self) -> None:
        self.wait = False
        self.waiting: list[Callable[[], None]] = []

    def begin(self, look: Callable[[], None], _name: str) -> None:
        """Stands for `headgate.ops.console.reader.in_thread`."""
        self.waiting.append(look)
        if not self.wait:
            self.make()

    def make(self) -> None:
        """Make the looks that wait."""
        while self.waiting:
            self.waiting.pop(0)()


class Shop:
    """An app on AWS in memory, and its console."""

    def __init__(self) -> None:
        self.app = App("shop", priorities="all", stage="test", records="full")
        self.payments = self.app.queue(
            "payments",
            priorities=[Priority.CRITICAL, Priority.LOW],
            rate_limit=RateLimit(20, per=1, scope="fleet"),
            breaker=Breaker(0.5),
        )
        self.send_email = self.app.define(
            "send-email", Email, returns=str, retry=Retry(max_attempts=1)
        )
        self.capture = self.payments.define("capture", Email, priority="critical")
        self.send_email.handler(_send)
        self.capture.handler(_capture)
        self.harness = Harness(self.app)
        self.metrics = self.harness.metrics
        self.client: Client = self.harness.client

    def browser(self, *, read_only: bool = False, root: str = "") -> Browser:
        """Return a browser that looks at the console."""
        served = console(
            self.app,
            access=everybody("ada@laptop"),
            read_only=read_only,
            hosts=LOOPBACK_HOSTS,
            client=self.client,
            clock=self.harness.clock,
        )
        return Browser(served, root=root)

    def later(self, seconds: float = 60) -> None:
        """Let time pass, so that everything is asked anew."""
        self.harness.clock.advance(timedelta(seconds=seconds))


async def _send(email: Email) -> str:
    if email.to.startswith("bad"):
        raise DoNotRetry(f"no such address: {MARKUP}")
    return f"sent to {email.to}"


async def _capture(email: Email) -> None:
    del email


def ended() -> None:
    """Wait for what the console carries out after its answer."""
    for each in threading.enumerate():
        if each.name.startswith(("replay ", "resume ")):
            each.join(60)


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """The looks in the background."""
    looks = Looks()
    monkeypatch.setattr(reader, "in_thread", looks.begin)
    return looks


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def browser(shop: Shop) -> Browser:
    return shop.browser()
