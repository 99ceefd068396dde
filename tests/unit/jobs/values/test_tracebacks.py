"""The traceback of a failed job begins with the user's code, wherever its handler ran."""

from __future__ import annotations

import re
import traceback
from datetime import UTC, datetime

import pytest

from headgate import App, JobContext
from headgate.errors import PayloadInvalid
from headgate.events import JobFailed
from headgate.jobs.retry.policy import Retry
from headgate.jobs.values.redaction import NOTHING
from headgate.testing import Harness
from headgate.workers.isolation.protocol import failure_fields

app = App("shop")
failed: list[JobFailed] = []
app.on_failed(failed.append)


def divide() -> float:
    return 1 / 0


@app.job("plain")
def plain() -> None:
    divide()


@app.job("awaited")
async def awaited() -> None:
    divide()


@app.job("submitting")
async def submitting(ctx: JobContext) -> None:
    await ctx.submit(plain, "no payload")  # type: ignore[misc]


def functions_of(text: str) -> list[str]:
    return re.findall(r"^  File .*, in (\w+)$", text, re.MULTILINE)


@pytest.mark.parametrize("job", [plain, awaited], ids=["in a thread", "in the event loop"])
def test_a_failed_job_s_traceback_begins_in_its_handler(job: object) -> None:
    harness = Harness(app)
    failed.clear()
    harness.client.submit(job, max_attempts=1)  # type: ignore[call-overload]
    harness.drain()
    [event] = failed
    assert functions_of(event.traceback) == [event.job_type, "divide"]


def test_what_the_user_s_code_calls_in_headgate_stays_in_sight() -> None:
    harness = Harness(app)
    failed.clear()
    harness.client.submit(submitting, max_attempts=1)
    harness.drain()
    [event] = failed
    assert functions_of(event.traceback)[:2] == ["submitting", "submit"]


def test_a_failure_in_a_child_process_begins_in_the_user_s_code_too() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        plain()
    assert raised.value.__traceback__ is not None
    of_headgate = raised.value.with_traceback(raised.value.__traceback__.tb_next)
    assert traceback.extract_tb(of_headgate.__traceback__)[0].name == "__call__"
    fields = failure_fields(of_headgate, Retry(), datetime.now(UTC))
    assert functions_of(fields["traceback"]) == ["plain", "divide"]


def without_the_user_s_frames(error: BaseException) -> BaseException:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return error.with_traceback(trace)


def test_an_error_of_headgate_s_own_is_its_text_alone() -> None:
    with pytest.raises(PayloadInvalid) as raised:
        plain.dump("no payload")  # type: ignore[arg-type]
    told = NOTHING.traceback(without_the_user_s_frames(raised.value))
    assert told.splitlines()[0].startswith("headgate.jobs.errors.submission.PayloadInvalid: ")


def test_a_bug_of_headgate_s_keeps_its_frames() -> None:
    with pytest.raises(AttributeError) as raised:
        NOTHING.traceback(None)  # type: ignore[arg-type]
    assert functions_of(NOTHING.traceback(without_the_user_s_frames(raised.value))) == ["traceback"]
