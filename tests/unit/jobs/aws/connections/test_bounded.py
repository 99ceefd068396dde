"""The time limit on aiobotocore's requests as a whole."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from aiobotocore.httpsession import AIOHTTPSession
from botocore.exceptions import ReadTimeoutError

from headgate.jobs.aws.connections.bounded import BoundedSession

pytestmark = pytest.mark.looptime

_REQUEST = SimpleNamespace(url="http://localhost/")


def _session(monkeypatch: pytest.MonkeyPatch, takes_s: float) -> BoundedSession:
    async def send(_self: AIOHTTPSession, _request: object) -> str:
        await asyncio.sleep(takes_s)
        return "answer"

    monkeypatch.setattr(AIOHTTPSession, "send", send)
    return BoundedSession(timeout=(1, 2), max_pool_connections=1)


async def test_a_request_may_take_both_timeouts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _session(monkeypatch, 2.9).send(_REQUEST) == "answer"
    with pytest.raises(ReadTimeoutError):
        await _session(monkeypatch, 3.1).send(_REQUEST)


async def test_the_wait_for_a_connection_is_not_part_of_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = _session(monkeypatch, 2)
    answers = await asyncio.gather(*(session.send(_REQUEST) for _ in range(3)))
    assert answers == ["answer"] * 3


async def test_a_request_that_is_cancelled_is_no_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    request = asyncio.create_task(_session(monkeypatch, 2).send(_REQUEST))
    await asyncio.sleep(1)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
