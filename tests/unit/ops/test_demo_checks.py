"""Each check of the demo passes on a good run, and fails on the fault that it looks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from headgate.jobs.core.events import (
    Event,
    JobCompleted,
    JobDeadLettered,
    JobDiscarded,
    JobEvent,
    JobFailed,
    JobQuarantined,
    JobRetryScheduled,
    JobStarted,
    JobSubmitted,
    MessageUnrunnable,
    RecordsFailed,
    SettlementFailed,
)
from headgate.jobs.core.ports.transport import QueueDepth
from headgate.jobs.core.topology import Priority
from headgate.jobs.execution.outcome import Reason
from headgate.ops.demo.accounting import Accounting, percentile
from headgate.ops.demo.books import effect_key
from headgate.ops.demo.checks import Aftermath, Check, Letter, run_checks
from headgate.ops.demo.plan import FinalOutcome, Plan, PlannedJob, make_plan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EMPTY = QueueDepth(visible=0, in_flight=0, delayed=0)
EFFECTS = ("send-email", "send-notification", "process-order", "capture-payment")


@dataclass
class Course:
    """A run of the demo that a test may spoil before it is checked."""

    plan: Plan
    planned: dict[str, PlannedJob]
    events: list[Event]
    letters: list[Letter]
    effects: dict[str, set[str]]
    depths: dict[str, QueueDepth]
    left: list[str] = field(default_factory=list)

    @property
    def accounting(self) -> Accounting:
        accounting = Accounting()
        for event in self.events:
            accounting(event)
        return accounting

    def first(self, ending: FinalOutcome, *, failures: int = 0) -> str:
        """Return the id of a job that is to end so."""
        return next(
            job_id
            for job_id, job in self.planned.items()
            if job.expected.ending is ending and job.expected.failures >= failures
        )

    def drop(self, job_id: str, kind: type[JobEvent]) -> JobEvent:
        """Remove the job's last event of that kind, and return it."""
        event = next(
            event
            for event in reversed(self.events)
            if isinstance(event, kind) and event.job_id == job_id
        )
        self.events.remove(event)
        return event

    def failed_checks(self) -> list[Check]:
        findings = Aftermath(
            depths=self.depths, letters=self.letters, effects=self.effects, left=self.left
        )
        checks = run_checks(self.plan, self.planned, self.accounting, findings)
        return [check for check in checks if not check.passed]


def _submitted(job_id: str, job: PlannedJob) -> JobSubmitted:
    return JobSubmitted(
        at=NOW,
        job_id=job_id,
        job_type=job.type.name,
        queue=job.type.queue,
        priority=job.queue.priority,
        delay_s=0,
    )


def _named(job_id: str, job: PlannedJob) -> dict[str, object]:
    return {
        "at": NOW,
        "job_id": job_id,
        "job_type": job.type.name,
        "queue": job.type.queue,
        "priority": job.queue.priority,
        "attempt": 1,
        "max_attempts": 3,
    }


def _events(job_id: str, job: PlannedJob) -> list[Event]:
    names = _named(job_id, job)
    expected = job.expected
    failed = JobFailed(**names, ran_s=0, error_type="E", error_message="", traceback="")  # type: ignore[arg-type]  # values of several types
    retried = JobRetryScheduled(**names, delay_s=1)  # type: ignore[arg-type]  # values of several types
    ended: dict[FinalOutcome, Callable[[], Event]] = {
        FinalOutcome.DONE: lambda: JobCompleted(**names, ran_s=0),  # type: ignore[arg-type]  # values of several types
        FinalOutcome.DISCARDED: lambda: JobDiscarded(**names, reason="x"),  # type: ignore[arg-type]  # values of several types
        FinalOutcome.DEAD: lambda: JobDeadLettered(
            **names,  # type: ignore[arg-type]  # values of several types
            reason=str(expected.reason),
            error_type=expected.error_type,
            error_message="",
        ),
    }
    return [
        _submitted(job_id, job),
        JobStarted(**names, is_first=True, waited_s=0.5),  # type: ignore[arg-type]  # values of several types
        *[failed] * expected.failures,
        *[retried] * expected.retries,
        ended[expected.ending](),
    ]


def _letter(job_id: str, job: PlannedJob) -> Letter:
    return Letter(
        queue=job.queue.dlq_name,
        body="{}",
        job_id=job_id,
        reason=str(job.expected.reason),
        error_type=job.expected.error_type,
    )


@pytest.fixture
def course() -> Course:
    plan = make_plan(100, seed=1)
    scheduled = [PlannedJob(type=each, payload=each.load({})) for each in plan.schedules]
    planned = {f"id-{number}": job for number, job in enumerate([*plan.jobs, *scheduled])}
    parked = [
        MessageUnrunnable(
            at=NOW,
            queue=message.queue.name,
            message_id="m",
            job_id=None,
            job_type=None,
            reason=message.reason,
            detail="",
            receives=3,
            retry_in_s=None,
        )
        for message in plan.messages
    ]
    letters = [
        Letter(
            queue=message.queue.dlq_name,
            body=message.body,
            job_id="m",
            reason=str(message.reason),
            error_type="",
        )
        for message in plan.messages
    ]
    return Course(
        plan=plan,
        planned=planned,
        events=[
            *parked,
            *(event for job_id, job in planned.items() for event in _events(job_id, job)),
        ],
        letters=letters
        + [
            _letter(i, job)
            for i, job in planned.items()
            if job.expected.ending is FinalOutcome.DEAD
        ],
        effects={
            name: {
                effect_key(job_id, job)
                for job_id, job in planned.items()
                if job.type.name == name and job.expected.ending is FinalOutcome.DONE
            }
            for name in EFFECTS
        },
        depths={"a-queue": EMPTY},
    )


def test_every_check_passes_on_a_run_that_went_well(course: Course) -> None:
    assert course.failed_checks() == []


def test_a_job_that_never_ended_is_missed(course: Course) -> None:
    job_id = course.first(FinalOutcome.DISCARDED)
    course.drop(job_id, JobDiscarded)
    [check] = course.failed_checks()
    assert check.name == "every job ended exactly once"
    assert check.detail == f"not ended: 1 {course.planned[job_id].type.name}"


def test_a_job_that_ended_twice_is_found(course: Course) -> None:
    job_id = course.first(FinalOutcome.DISCARDED)
    event = course.drop(job_id, JobDiscarded)
    course.events += [event, event]
    [check] = course.failed_checks()
    assert check.name == "every job ended exactly once"
    assert job_id in check.detail


def test_a_job_that_was_never_submitted_is_missed(course: Course) -> None:
    job_id = course.first(FinalOutcome.DISCARDED)
    del course.planned[job_id]
    course.events = [
        e for e in course.events if not (isinstance(e, JobEvent) and e.job_id == job_id)
    ]
    [check] = course.failed_checks()
    assert check.detail == "104 of 105 jobs were submitted"


def test_a_job_that_was_submitted_twice_is_found(course: Course) -> None:
    job_id = course.first(FinalOutcome.DISCARDED)
    course.events.append(_submitted(job_id, course.planned[job_id]))
    [check] = course.failed_checks()
    assert check.detail.endswith(f"{job_id} was submitted 2 times")


def test_a_job_that_nobody_planned_is_found(course: Course) -> None:
    job = course.planned[course.first(FinalOutcome.DONE)]
    course.events += _events("stranger", job)
    [check] = course.failed_checks()
    assert "stranger was never planned" in check.detail


def test_a_job_that_ended_otherwise_than_planned_is_found(course: Course) -> None:
    job_id = course.first(FinalOutcome.DISCARDED)
    course.drop(job_id, JobDiscarded)
    names = _named(job_id, course.planned[job_id])
    course.events.append(JobCompleted(**names, ran_s=0))  # type: ignore[arg-type]  # values of several types
    course.effects["process-order"].add(effect_key(job_id, course.planned[job_id]))
    [check] = course.failed_checks()
    assert check.name == "every job ended as it had to"
    assert check.detail.endswith("was done, not discarded")


def test_a_job_that_died_of_something_else_is_found(course: Course) -> None:
    job_id = course.first(FinalOutcome.DEAD)
    course.drop(job_id, JobDeadLettered)
    names = _named(job_id, course.planned[job_id])
    course.events.append(
        JobDeadLettered(**names, reason="newer-schema", error_type="E", error_message="")  # type: ignore[arg-type]  # values of several types
    )
    [check] = course.failed_checks()
    assert "died of newer-schema" in check.detail


def test_a_retry_too_few_is_found(course: Course) -> None:
    course.drop(course.first(FinalOutcome.DONE, failures=1), JobRetryScheduled)
    [check] = course.failed_checks()
    assert check.name == "every failure was retried as often as it had to be"


def test_a_retry_more_is_excused_while_the_table_does_not_answer(course: Course) -> None:
    job_id = course.first(FinalOutcome.DEAD, failures=2)
    again = course.drop(job_id, JobRetryScheduled)
    course.events += [again, again]
    assert len(course.failed_checks()) == 1
    slow = RecordsFailed(at=NOW, action="read", error="no answer within 1 s", job_id=job_id)
    course.events.append(slow)
    assert course.failed_checks() == []


def test_a_dead_letter_that_is_missing_is_found(course: Course) -> None:
    course.letters.pop()
    [check] = course.failed_checks()
    assert check.detail.startswith("missing: ")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda one: Letter(
            queue=one.queue, body=one.body, job_id=one.job_id, reason="x", error_type=one.error_type
        ),
        lambda one: Letter(
            queue=one.queue, body=one.body, job_id=one.job_id, reason=one.reason, error_type="X"
        ),
        lambda one: Letter(
            queue="x", body=one.body, job_id=one.job_id, reason=one.reason, error_type=""
        ),
    ],
    ids=["reason", "error type", "queue"],
)
def test_a_dead_letter_with_anything_wrong_is_found(
    course: Course, spoil: Callable[[Letter], Letter]
) -> None:
    course.letters.append(spoil(course.letters.pop()))
    [check] = course.failed_checks()
    assert check.detail.startswith("missing: ")
    assert "not expected: " in check.detail


def test_a_dead_letter_too_many_is_found(course: Course) -> None:
    course.letters.append(course.letters[0])
    [check] = course.failed_checks()
    assert check.detail.startswith("not expected: ")


def test_a_message_that_was_parked_for_another_reason_is_found(course: Course) -> None:
    letter = course.letters[0]
    course.letters[0] = Letter(
        queue=letter.queue,
        body=letter.body,
        job_id="m",
        reason=str(Reason.PAYLOAD_INVALID),
        error_type="",
    )
    [check] = course.failed_checks()
    assert "payload-invalid" in check.detail


def test_an_effect_that_is_not_in_the_books_is_missed(course: Course) -> None:
    course.effects["send-email"].pop()
    [check] = course.failed_checks()
    assert "1 send-email done, but not in the books" in check.detail


def test_an_effect_of_no_job_is_found(course: Course) -> None:
    course.effects["process-order"].add("order-x")
    [check] = course.failed_checks()
    assert check.detail == "1 process-order in the books, but not done, such as order-x"


@pytest.mark.parametrize("state", ["visible", "in_flight", "delayed"])
def test_a_message_that_is_left_in_a_queue_is_found(course: Course, state: str) -> None:
    numbers = {"visible": 0, "in_flight": 0, "delayed": 0} | {state: 1}
    course.depths["a-queue"] = QueueDepth(**numbers)
    [check] = course.failed_checks()
    assert check.name == "nothing is left in a queue"


def test_what_a_worker_left_behind_is_reported(course: Course) -> None:
    course.left.append("one job interrupted")
    [check] = course.failed_checks()
    assert check.detail == "one job interrupted"


def test_a_settlement_that_failed_and_a_job_in_quarantine_are_reported(course: Course) -> None:
    course.events.append(
        SettlementFailed(
            at=NOW, queue="q", message_id="m", job_id="j", action="delete", error="gone"
        )
    )
    job_id = course.first(FinalOutcome.DONE)
    names = _named(job_id, course.planned[job_id])
    course.events.append(JobQuarantined(**names, detail="it crashed"))  # type: ignore[arg-type]  # values of several types
    [check] = course.failed_checks()
    assert "settlement.failed at q: gone" in check.detail
    assert "it crashed" in check.detail


def test_only_the_first_faults_are_shown() -> None:
    check = Check(name="x", faults=("a", "b", "c", "d", "e"))
    assert check.detail == "a; b; c; and 2 more"


def test_tallies_and_pickups_follow_the_events(course: Course) -> None:
    accounting = course.accounting
    assert accounting.total.submitted == accounting.total.ended == 105
    assert accounting.total.dead.total() == len(course.letters) - 2
    assert accounting.parked.total() == 2
    assert set(accounting.pickups_s) == set(Priority)
    assert sum(map(len, accounting.pickups_s.values())) == 105


def test_a_percentile_is_the_nearest_rank() -> None:
    values = [float(value) for value in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99), percentile([7.0], 99)) == (50, 99, 7)
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
