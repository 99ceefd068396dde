"""Credentials that are refreshed: by one look-up for all calls, which wait only if they must."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiobotocore.credentials import (
    AioCredentialResolver,
    AioDeferredRefreshableCredentials,
    AioRefreshableCredentials,
)
from botocore.exceptions import CredentialRetrievalError

from headgate.jobs.aws.connections.expiring_credentials import PATIENCE_S, ExpiringCredentials
from headgate.jobs.aws.connections.late_credentials import PatientSession
from headgate.jobs.aws.connections.shared_look_up import MOST_S, PAUSE_S
from tests.support.environment import without_aws

pytestmark = pytest.mark.looptime

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def now_s() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Source:
    """Gives credentials named after the number of times that it was asked."""

    takes_s: float = 0.0
    fails: bool = False
    lasts: timedelta = 6 * HOUR
    asked: int = 0
    began_s: float = field(default_factory=now_s)

    def now(self) -> datetime:
        return NOON + timedelta(seconds=now_s() - self.began_s)

    async def refresh(self) -> dict[str, Any]:
        self.asked += 1
        number = self.asked
        await asyncio.sleep(self.takes_s)
        if self.fails:
            raise CredentialRetrievalError(provider="a test", error_msg="it fails")
        return {
            "access_key": f"key {number}",
            "secret_key": "secret",
            "token": None,
            "expiry_time": (self.now() + self.lasts).isoformat(),
            "account_id": "1",
        }

    def botocores(self, *, left: timedelta) -> AioRefreshableCredentials:
        """Return credentials that are valid for that much longer."""
        until = NOON + left
        return AioRefreshableCredentials(
            "old", "secret", "token", until, self.refresh, "a test", time_fetcher=self.now
        )

    def credentials(self, *, left: timedelta) -> ExpiringCredentials:
        """Return ours over `botocores`."""
        return ExpiringCredentials(self.botocores(left=left))


async def key_of(credentials: ExpiringCredentials) -> str:
    key: str = (await credentials.get_frozen_credentials()).access_key
    return key


async def test_credentials_are_not_refreshed_before_it_is_time() -> None:
    source = Source()
    assert await key_of(source.credentials(left=HOUR)) == "old"
    assert source.asked == 0


@pytest.mark.parametrize("minutes", [14, 9])
async def test_a_refresh_that_hangs_holds_up_no_call_while_credentials_are_valid(
    minutes: int, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(takes_s=3_600)
    credentials = source.credentials(left=timedelta(minutes=minutes))
    started = now_s()
    keys = await asyncio.gather(*(key_of(credentials) for _ in range(5)))
    assert keys == ["old"] * 5
    assert now_s() - started == pytest.approx(PATIENCE_S)
    for _ in range(int(MOST_S)):
        assert await key_of(credentials) == "old"
        await asyncio.sleep(1)
    assert source.asked == 1
    assert now_s() - started == pytest.approx(PATIENCE_S + MOST_S), "no other call has waited"
    assert "no answer in time" in caplog.text
    source.takes_s = PATIENCE_S / 2
    await asyncio.sleep(PAUSE_S)
    assert await key_of(credentials) == "key 2"


async def test_a_slow_refresh_goes_on_though_no_call_waits_for_it() -> None:
    source = Source(takes_s=MOST_S - 1)
    credentials = source.credentials(left=timedelta(minutes=5))
    assert await key_of(credentials) == "old"
    await asyncio.sleep(MOST_S - 1)
    assert await key_of(credentials) == "key 1"
    assert await credentials.get_account_id() == "1"
    assert source.asked == 1


async def test_a_call_that_is_cancelled_does_not_end_the_refresh_of_the_others() -> None:
    source = Source(takes_s=5)
    credentials = source.credentials(left=-HOUR)
    calls = [asyncio.create_task(key_of(credentials)) for _ in range(2)]
    await asyncio.sleep(1)
    calls[0].cancel()
    assert await calls[1] == "key 1"
    assert calls[0].cancelled()


async def test_a_source_that_fails_is_asked_with_pauses_while_credentials_are_valid() -> None:
    source = Source(fails=True)
    credentials = source.credentials(left=timedelta(minutes=9))
    for _ in range(30):
        assert await key_of(credentials) == "old"
        await asyncio.sleep(1)
    assert source.asked == 30 / PAUSE_S


async def test_short_lived_credentials_are_not_looked_up_by_every_call() -> None:
    source = Source(lasts=timedelta(minutes=5))
    credentials = source.credentials(left=timedelta(minutes=5))
    for _ in range(30):
        await key_of(credentials)
        await asyncio.sleep(1)
    assert source.asked == 30 / PAUSE_S


async def test_calls_share_the_end_of_a_refresh_that_hangs() -> None:
    source = Source(takes_s=3_600)
    credentials = source.credentials(left=-HOUR)
    started = now_s()
    calls = (key_of(credentials) for _ in range(5))
    failures = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in failures] == [CredentialRetrievalError] * 5
    assert now_s() - started == pytest.approx(MOST_S)
    source.takes_s = 0
    assert await key_of(credentials) == "key 2"


async def test_a_refresh_that_fails_as_credentials_expire_is_made_again() -> None:
    source = Source(takes_s=5, fails=True)
    left = timedelta(minutes=14)
    credentials = source.credentials(left=left)
    assert await key_of(credentials) == "old"
    source.began_s -= left.total_seconds()  # the clock is set forward
    late = asyncio.create_task(key_of(credentials))
    await asyncio.sleep(4.5)
    assert source.asked == 2
    source.fails = False
    assert await late == "key 2"


async def test_credentials_that_have_expired_and_cannot_be_refreshed_are_an_error() -> None:
    source = Source(fails=True)
    with pytest.raises(CredentialRetrievalError, match="it fails"):
        await key_of(source.credentials(left=-HOUR))


async def test_credentials_that_are_not_there_yet_are_waited_for() -> None:
    source = Source(takes_s=MOST_S - 1)
    known = AioDeferredRefreshableCredentials(source.refresh, "assume-role", source.now)
    assert await key_of(ExpiringCredentials(known)) == "key 1"


async def test_clients_of_one_session_share_the_refresh(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    source = Source(takes_s=0.5)

    async def look_up(_resolver: AioCredentialResolver) -> AioRefreshableCredentials:
        return source.botocores(left=-HOUR)

    monkeypatch.setattr(AioCredentialResolver, "load_credentials", look_up)
    session = PatientSession()
    found = [await session.get_credentials() for _ in range(2)]
    assert await asyncio.gather(*(key_of(each) for each in found)) == ["key 1"] * 2
    assert source.asked == 1
