"""Checks after the demo has run. Pure: accounts and findings in, verdicts out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from headgate.jobs.core.ports.transport import QueueDepth
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.demo.accounting import Account, Accounting
from headgate.ops.demo.books import effect_key
from headgate.ops.demo.plan import FinalOutcome, Plan, PlannedJob

_MOST_SHOWN = 3


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message in a dead-letter queue."""

    queue: str
    body: str
    job_id: str
    reason: str
    error_type: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """The state of the server and of the shop's books once the workers have stopped."""

    depths: Mapping[str, QueueDepth]
    """Depths of all queues that have to be empty."""
    letters: Sequence[Letter]
    """The contents of all dead-letter queues."""
    effects: Mapping[str, set[str]]
    """Keys of the effects in the shop's books, by job type."""
    left: Sequence[str] = ()
    """Reports of workers that did not stop cleanly."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One verdict."""

    name: str
    faults: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.faults

    @property
    def detail(self) -> str:
        """The first few faults."""
        more = len(self.faults) - _MOST_SHOWN
        return "; ".join(self.faults[:_MOST_SHOWN]) + (f"; and {more:,} more" if more > 0 else "")


def run_checks(
    plan: Plan,
    planned: Mapping[str, PlannedJob],
    accounting: Accounting,
    findings: Aftermath,
) -> list[Check]:
    """Compare the accounts and the findings with the plan.

    Args:
        plan: the jobs and messages to submit.
        planned: the planned job of each submitted id, including the schedules'.
        accounting: the history according to the events.
        findings: the state of the server and of the books.
    """
    accounts = accounting.jobs
    checks: dict[str, Iterable[str]] = {
        "every job was submitted once": _submissions(plan, planned, accounts),
        "every job ended exactly once": _endings(planned, accounts),
        "every job ended as it had to": _outcomes(planned, accounts),
        "every failure was retried as often as it had to be": _retries(planned, accounting),
        "every dead letter is in its queue and says why": _letters(plan, planned, findings),
        "the shop's books hold what its jobs did, and no more": _effects(
            planned, accounts, findings
        ),
        "nothing is left in a queue": _leftovers(findings.depths),
        "the workers left nothing behind": findings.left,
        "no request to SQS went wrong for good": accounting.trouble,
    }
    return [Check(name=name, faults=tuple(faults)) for name, faults in checks.items()]


def _submissions(
    plan: Plan, planned: Mapping[str, PlannedJob], accounts: Mapping[str, Account]
) -> Iterator[str]:
    if len(planned) != plan.total_jobs:
        yield f"{len(planned):,} of {plan.total_jobs:,} jobs were submitted"
    for job_id, job in planned.items():
        times = accounts[job_id].submitted if job_id in accounts else 0
        if times != 1:
            yield f"{_name(job, job_id)} was submitted {times} times"
    for job_id in accounts.keys() - planned.keys():
        yield f"{accounts[job_id].type} {job_id} was never planned"


def _endings(planned: Mapping[str, PlannedJob], accounts: Mapping[str, Account]) -> Iterator[str]:
    missing = Counter(
        job.type.name for job_id, job in planned.items() if not _endings_of(job_id, accounts)
    )
    if missing:
        yield "not ended: " + ", ".join(f"{count:,} {name}" for name, count in missing.items())
    for job_id, job in planned.items():
        if len(endings := _endings_of(job_id, accounts)) > 1:
            yield f"{_name(job, job_id)} ended {len(endings)} times: {', '.join(endings)}"


def _outcomes(planned: Mapping[str, PlannedJob], accounts: Mapping[str, Account]) -> Iterator[str]:
    for job_id, job in planned.items():
        expected = job.expected
        for ending in _endings_of(job_id, accounts):
            if ending is not expected.ending:
                yield f"{_name(job, job_id)} was {ending}, not {expected.ending}"
            elif ending is FinalOutcome.DEAD and accounts[job_id].reason != expected.reason:
                reason = accounts[job_id].reason
                yield f"{_name(job, job_id)} died of {reason}, not of {expected.reason}"


def _retries(planned: Mapping[str, PlannedJob], accounting: Accounting) -> Iterator[str]:
    accounts = accounting.jobs
    for job_id, job in planned.items():
        expected = (job.expected.failures, job.expected.retries)
        if _endings_of(job_id, accounts):
            failed, retried = (accounts[job_id].failed, accounts[job_id].retried)
            if job_id in accounting.unrecorded and retried == expected[1] + 1:
                continue  # a table that doesn't answer can't tell that it was the last attempt
            if (failed, retried) != expected:
                yield (
                    f"{_name(job, job_id)} failed {failed} and was retried {retried} times, "
                    f"not {expected[0]} and {expected[1]}"
                )


def _letters(plan: Plan, planned: Mapping[str, PlannedJob], findings: Aftermath) -> Iterator[str]:
    wanted = Counter(_wanted_letters(plan, planned))
    found = Counter(
        (letter.queue, _identity(letter, planned), letter.reason, letter.error_type)
        for letter in findings.letters
    )
    for letter in (wanted - found).elements():
        yield f"missing: {_describe(letter)}"
    for letter in (found - wanted).elements():
        yield f"not expected: {_describe(letter)}"


def _wanted_letters(
    plan: Plan, planned: Mapping[str, PlannedJob]
) -> Iterator[tuple[str, str, str, str]]:
    for job_id, job in planned.items():
        if (reason := job.expected.reason) is not None:
            yield job.queue.dlq_name, job_id, str(reason), job.expected.error_type
    for message in plan.messages:
        yield message.queue.dlq_name, message.body, str(message.reason), ""


def _identity(letter: Letter, planned: Mapping[str, PlannedJob]) -> str:
    """Return the id of a submitted job, else the message's body: it never was a job."""
    return letter.job_id if letter.job_id in planned else letter.body


def _describe(letter: tuple[str, str, str, str]) -> str:
    queue, identity, reason, error_type = letter
    return f"{identity} in {queue}: {reason}" + (f" ({error_type})" if error_type else "")


def _effects(
    planned: Mapping[str, PlannedJob], accounts: Mapping[str, Account], findings: Aftermath
) -> Iterator[str]:
    for name, found in findings.effects.items():
        wanted = {
            effect_key(job_id, job)
            for job_id, job in planned.items()
            if job.type.name == name and FinalOutcome.DONE in _endings_of(job_id, accounts)
        }
        if lost := wanted - found:
            yield f"{len(lost):,} {name} done, but not in the books, such as {min(lost)}"
        if extra := found - wanted:
            yield f"{len(extra):,} {name} in the books, but not done, such as {min(extra)}"


def _leftovers(depths: Mapping[str, QueueDepth]) -> Iterator[str]:
    for queue, depth in depths.items():
        if depth != QueueDepth(visible=0, in_flight=0, delayed=0):
            yield (
                f"{queue} holds {depth.visible:,} visible, {depth.in_flight:,} in flight and "
                f"{depth.delayed:,} delayed"
            )


def _endings_of(job_id: str, accounts: Mapping[str, Account]) -> list[FinalOutcome]:
    return accounts[job_id].endings if job_id in accounts else []


def _name(job: PlannedJob, job_id: str) -> str:
    return f"{job.type.name} {job_id}"
