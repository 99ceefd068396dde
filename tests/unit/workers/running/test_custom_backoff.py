"""Custom backoffs: functions of the failure, whose faults cost a job nothing but their answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from headgate import App, Backoff, BackoffContext, Retry
from headgate.jobs.core.event_log import log_event
from headgate.jobs.core.events import JobRetryScheduled, MessageUnrunnable
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.retry.backoff import job_rng
from headgate.testing import Harness

QUEUE = "shop-jobs-normal"


class Busy(ConnectionError):
    """A handler's error that says something about the wait."""

    wait_s = 40


class Bench:
    """A harness of an app with one type, whose handler always fails, and a custom backoff."""

    def __init__(
        self, answer: Callable[[BackoffContext], Any], error: type[Exception] = Busy
    ) -> None:
        self.seen: list[BackoffContext] = []

        def backoff(failed: BackoffContext) -> Any:
            self.seen.append(failed)
            return answer(failed)

        self.retry = Retry(max_attempts=3, backoff=Backoff.custom(backoff))
        self.app = App("shop", parking=self.retry)

        @self.app.job("send", retry=self.retry)
        async def send(_payload: dict[str, int]) -> None:
            raise error

        self.send = send
        self.harness = Harness(self.app)

    def run(self, payload: dict[str, int], **overrides: Any) -> str:
        sent = self.harness.client.submit(self.send, payload, **overrides)
        self.harness.drain()
        return sent.id

    @property
    def retries(self) -> list[JobRetryScheduled]:
        return [each for each in self.harness.events if isinstance(each, JobRetryScheduled)]


def by_error_and_payload(failed: BackoffContext) -> float:
    wait_s = failed.error.wait_s if isinstance(failed.error, Busy) else 5
    return float(wait_s * failed.attempt + failed.payload["weight"])


def test_it_sees_the_attempt_its_error_and_the_job() -> None:
    bench = Bench(by_error_and_payload)
    job_id = bench.run({"weight": 3}, tenant="org-1", max_attempts=2)
    [retry] = bench.retries
    assert (retry.delay_s, retry.note, retry.backoff_fault) == (43, "", "")
    for seen in bench.seen:
        assert (seen.attempt, seen.max_attempts) == (1, 2)
        assert isinstance(seen.error, Busy)
        assert (seen.id, seen.type, seen.queue) == (job_id, "send", "jobs")
        assert (seen.tenant, seen.payload) == ("org-1", {"weight": 3})


def test_each_attempt_is_its_own_failure() -> None:
    bench = Bench(by_error_and_payload)
    bench.run({"weight": 0})
    assert [each.delay_s for each in bench.retries] == [40, 80]


def test_a_retry_after_wins_without_asking_it() -> None:
    class Patient(ConnectionError):
        retry_after = 100

    bench = Bench(lambda _failed: 1, Patient)
    bench.run({})
    assert all(100 <= each.delay_s <= 120 for each in bench.retries)
    assert bench.seen == []


def raises(_failed: BackoffContext) -> float:
    raise LookupError("no such card: 4111")


def exits(_failed: BackoffContext) -> float:
    raise SystemExit(1)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (raises, "raised LookupError"),
        (exits, "raised SystemExit"),
        (lambda _: -1, "returned a number out of range"),
        (lambda _: float("nan"), "returned NaN"),
        (lambda _: 10**10, "returned a number out of range"),
        (lambda _: "4111", "returned a str"),
        (lambda _: None, "returned a NoneType"),
    ],
)
def test_a_bad_answer_is_said_and_the_job_is_retried_after_the_default_backoff(
    answer: Callable[[BackoffContext], Any], fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(answer)
    job_id = bench.run({})
    default = [round(Backoff.exponential().delay_s(attempt, job_rng(job_id))) for attempt in (1, 2)]
    assert [each.delay_s for each in bench.retries] == default
    assert all(fault in each.backoff_fault for each in bench.retries)
    assert not any("4111" in each.backoff_fault for each in bench.retries)
    [letter] = bench.harness.dead_letters()
    assert letter.attributes["Reason"] == "attempts-exhausted"
    with caplog.at_level(logging.INFO):
        log_event(bench.retries[0])
    [line] = caplog.records
    assert line.levelno == logging.WARNING
    assert fault in line.getMessage()


def test_the_parking_policys_is_told_the_message_that_can_not_be_run() -> None:
    bench = Bench(lambda failed: 10 * failed.attempt)
    body = json.dumps({"v": 1, "id": "x"})
    bench.harness.sqs.sync.send(QUEUE, [OutgoingMessage(body=body, attributes={"JobType": "send"})])
    bench.harness.drain()
    told = [each for each in bench.harness.events if isinstance(each, MessageUnrunnable)]
    assert [each.retry_in_s for each in told] == [10, 20, None]
    assert (bench.seen[0].type, bench.seen[0].queue) == ("send", "jobs")
    assert (bench.seen[0].error, bench.seen[0].payload) == (None, None)
