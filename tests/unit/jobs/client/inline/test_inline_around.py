"""Code around attempts, and their sessions, where jobs run in place of their submission."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Retry
from headgate.errors import InlineFailed, JobTimeout
from headgate.jobs.definitions.job_type import JobType
from tests.support.clients import Kind
from tests.support.spool_bench import EMAIL, Email
from tests.unit.jobs.client.inline.test_inline import Rig
from tests.unit.workers.running.test_around import Session, Told


class Surrounded(Rig):
    """A rig whose app has a session for each attempt, and an around that swallows what it can."""

    def __init__(self, kind: Kind, timeout_s: float | None = None) -> None:
        super().__init__(kind)
        self.log, self.began = Told(), asyncio.Event()
        self.app = App("shop", stage="test")
        self.log.scope(self.app)
        retry = Retry(max_attempts=1)
        timeout = None if timeout_s is None else timedelta(seconds=timeout_s)

        @self.app.around
        async def greedy() -> AsyncIterator[None]:
            try:
                yield
            except asyncio.CancelledError:
                self.log.append("swallowed")
            except JobTimeout as error:
                self.log.append("around JobTimeout")
                raise TimeoutError("translated") from error

        @self.app.job("send-email", retry=retry, timeout=timeout)
        async def send_email(_email: Email, _session: Session) -> None:
            self.began.set()
            await asyncio.Event().wait()

        self.job: JobType[Email, Any] = send_email


async def test_an_around_sees_the_timeout_of_a_job_that_runs_in_place(kind: Kind) -> None:
    rig = Surrounded(kind, 0.01)
    with pytest.raises(InlineFailed) as raised:
        await rig.client().submit(rig.job, EMAIL)
    assert str(raised.value.__cause__) == "translated"
    assert rig.log == ["pool", "open", "close JobTimeout", "around JobTimeout"]


async def test_a_cancelled_submission_leaves_the_arounds_of_its_inline_job() -> None:
    rig = Surrounded("AsyncClient")
    submitting = asyncio.create_task(rig.client().submit(rig.job, EMAIL))
    await rig.began.wait()
    submitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await submitting
    assert rig.log == ["pool", "open", "close CancelledError", "swallowed"]
