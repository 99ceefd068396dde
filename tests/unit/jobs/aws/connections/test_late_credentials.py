"""Credentials that can't be obtained when a client is opened."""

from __future__ import annotations

import asyncio

import pytest
from aiobotocore.credentials import AioCredentials
from botocore.exceptions import CredentialRetrievalError

from headgate.jobs.aws.connections.late_credentials import LOOK_UP_S, LateCredentials

pytestmark = pytest.mark.looptime


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
    assert (await late.get_frozen_credentials()).access_key == "id"
