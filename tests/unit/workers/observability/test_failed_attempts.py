"""The failed attempts that a worker's status counts."""

from __future__ import annotations

from datetime import UTC, datetime

from headgate import Priority
from headgate.jobs.core.events import JobFailed, LoopBlocked
from headgate.jobs.records.fleet.worker_status import MOST_FAILING
from headgate.workers.observability.failed_attempts import FailedAttempts

AT = datetime(2026, 11, 1, tzinfo=UTC)


def failed(queue: str) -> JobFailed:
    return JobFailed(
        at=AT,
        job_id="1",
        job_type="send-email",
        queue=queue,
        priority=Priority.HIGH,
        attempt=1,
        max_attempts=3,
        ran_s=0.1,
        error_type="ValueError",
        error_message="",
        traceback="",
    )


def test_attempts_are_counted_by_queue_group_and_nothing_else_is() -> None:
    counted = FailedAttempts()
    counted(LoopBlocked(at=AT, blocked_s=2, job_types=()))
    assert counted.now == {}
    for queue in ("mail", "money", "mail"):
        counted(failed(queue))
    assert counted.now == {"mail": 2, "money": 1}
    assert [kind for kind in (JobFailed, LoopBlocked) if counted.wants(kind)] == [JobFailed]


def test_the_groups_with_most_are_told_as_many_as_a_status_holds() -> None:
    counted = FailedAttempts()
    for number in range(MOST_FAILING + 5):
        for _ in range(number + 1):
            counted(failed(f"queue-{number}"))
    assert len(counted.now) == MOST_FAILING
    assert "queue-0" not in counted.now
