"""Credentials that can't be obtained when a client is opened."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest
from aiobotocore.credentials import AioCredentials
from aiobotocore.session import AioSession
from botocore.exceptions import CredentialRetrievalError

from headgate.jobs.aws.connections.late_credentials import (
    LOOK_UP_S,
    SAID_AFTER_S,
    LateCredentials,
    PatientSession,
)
from headgate.jobs.aws.connections.shared_look_up import MOST_S
from tests.support.environment import without_aws
from tests.support.journal import GENEROUS_S

looptime = pytest.mark.looptime


@looptime
async def test_calls_that_wait_for_credentials_share_one_look_up() -> None:
    looked = 0

    async def load() -> AioCredentials:
        nonlocal looked
        looked += 1
        await asyncio.sleep(1)
        return AioCredentials("id", "secret")

    late = LateCredentials(load)
    frozen = await asyncio.gather(*(late.get_frozen_credentials() for _ in range(10)))
    assert {each.access_key for each in frozen} == {"id"}
    assert looked == 1


@looptime
async def test_calls_fail_within_a_bound_while_a_look_up_hangs_and_it_is_made_again() -> None:
    hangs = True

    async def load() -> AioCredentials:
        await asyncio.sleep(3_600 if hangs else 0)
        return AioCredentials("id", "secret")

    late = LateCredentials(load)
    started = asyncio.get_running_loop().time()
    calls = (late.get_frozen_credentials() for _ in range(3))
    failures = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in failures] == [CredentialRetrievalError] * 3
    assert asyncio.get_running_loop().time() - started == pytest.approx(LOOK_UP_S)
    hangs = False
    await asyncio.sleep(MOST_S - LOOK_UP_S)
    assert (await late.get_frozen_credentials()).access_key == "id"


@looptime
async def test_a_look_up_that_takes_longer_than_a_call_waits_serves_a_later_call() -> None:
    looked = 0

    async def load() -> AioCredentials:
        nonlocal looked
        looked += 1
        await asyncio.sleep(MOST_S - 1)
        return AioCredentials("id", "secret")

    late = LateCredentials(load)
    for _ in range(2):
        with pytest.raises(CredentialRetrievalError, match="no answer in time"):
            await late.get_frozen_credentials()
    await asyncio.sleep(LOOK_UP_S)
    started = asyncio.get_running_loop().time()
    assert (await late.get_frozen_credentials()).access_key == "id"
    assert looked == 1
    assert asyncio.get_running_loop().time() == started, "it was found while no call waited"


@looptime
async def test_a_first_look_up_that_hangs_is_told_of_and_ends_within_a_bound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    without_aws(monkeypatch, tmp_path)
    (tmp_path / "config").write_text("[default]\ncredential_process = a-secret\n")
    hangs = True

    async def look_up(_session: AioSession) -> AioCredentials:
        await asyncio.sleep(3_600 if hangs else 0)
        return AioCredentials("id", "secret")

    monkeypatch.setattr(AioSession, "get_credentials", look_up)
    clock = asyncio.get_running_loop().time
    started = clock()
    opening = asyncio.ensure_future(PatientSession().get_credentials())
    with caplog.at_level(logging.WARNING, "headgate.aws"):
        await asyncio.sleep(SAID_AFTER_S - 0.1)
        assert not caplog.messages
        await asyncio.sleep(0.2)
        [said] = caplog.messages
        assert "credential_process has not answered for 3 s" in said
        late = await opening
        assert clock() - started == pytest.approx(MOST_S)
        assert "no answer in time" in caplog.messages[-1]
    assert "a-secret" not in caplog.text
    hangs = False
    assert (await late.get_frozen_credentials()).access_key == "id"


@looptime
async def test_a_look_up_that_takes_its_time_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)

    async def look_up(_session: AioSession) -> AioCredentials:
        await asyncio.sleep(MOST_S - 1)
        return AioCredentials("id", "secret")

    monkeypatch.setattr(AioSession, "get_credentials", look_up)
    found = await PatientSession().get_credentials()
    assert (await found.get_frozen_credentials()).access_key == "id"


async def test_a_process_that_nobody_waits_for_any_longer_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    script = tmp_path / "hangs.sh"
    script.write_text(f"echo $$ > {pid}\nexec sleep 1000\n")
    (tmp_path / "config").write_text(f"[default]\ncredential_process = sh {script}\n")
    opening = asyncio.ensure_future(PatientSession().get_credentials())
    process = int(await asyncio.to_thread(pid.read_text))
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    watched = os.pidfd_open(process)
    loop.add_reader(watched, ended.set)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    async with asyncio.timeout(GENEROUS_S):
        await ended.wait()
    loop.remove_reader(watched)
    os.close(watched)
