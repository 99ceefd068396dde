"""Alerts about dead letters: their number, kinds, reasons and queues, and the remedies.

An alert never has a payload, nor an error's message, which may quote one. It has types, reasons,
names of errors and queues, and the ids of the first few jobs, by which all else can be looked up.

Whoever may send to a dead-letter queue chooses what a message there says of itself. So of types and
reasons only those are told that the app and Headgate have, an error's only if it can be the name of
a class, and an id only if it is a UUID: no address can be put into an alert, and no number of
invented types makes more metrics.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from urllib.parse import urlencode
from uuid import UUID

from headgate.jobs.core.naming import DEAD_LETTERS, DEAD_LETTERS_KEPT
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.reading import REASONS
from headgate.jobs.deployment.sweep_plan import SUMMARY_EVERY, Kind, ParkingQueue, SweepPlan
from headgate.jobs.values.light_dataclass import light_dataclass

UNKNOWN = "unknown"
"""Placeholder for a name that is not one of ours, such as a job type's."""

_MOST_KINDS = 20
_MOST_IDS = 3
_MOST_NAMED = 5
"""Most types that a command in an alert selects by name."""
_MOST_SUBJECT = 99  # https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
_ERROR = re.compile(r"((Extension|Function|Runtime|Sandbox)\.)?[A-Za-z_][A-Za-z0-9_]{0,127}")
"""The name of a class, or of an error of Lambda's own, such as ``Sandbox.Timedout``."""

_ADVICE: Mapping[Kind, str] = {
    "dead-letters": (
        "Mend the cause first. Then `{replay} --dry-run` counts what would be sent back to its "
        "queue, and without --dry-run sends it."
    ),
    "quarantine": (
        "What is in quarantine killed the processes that ran it, and would kill them again. Find "
        "out why before `{replay}` sends anything back."
    ),
    "unsubmitted": (
        "A schedule or an event did not become a job. The log of the bridge function says why; "
        "once that is mended, `{replay}` sends it to its queue."
    ),
}


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A dead letter, and its queue."""

    plan: SweepPlan
    queue: ParkingQueue
    letter: DeadLetter

    @property
    def job_type(self) -> str:
        """The job's type, if the app has it."""
        named = self.letter.job_type
        return named if named and named in self.plan.types else UNKNOWN

    @property
    def reason(self) -> str:
        """The reason for which it is there, if it is one that Headgate gives."""
        named = self.letter.reason
        return named if named in REASONS else UNKNOWN

    @property
    def error_type(self) -> str:
        """The class of its last error; empty if it names none."""
        named = self.letter.error_type
        return named if not named or _ERROR.fullmatch(named) else UNKNOWN

    @property
    def job_id(self) -> str | None:
        """The job's id, if it is one."""
        try:
            return str(UUID(self.letter.job_id or ""))
        except ValueError:
            return None

    @property
    def is_critical(self) -> bool:
        """True if people are told at once: of a critical type, or of what is in quarantine."""
        return self.queue.kind == "quarantine" or self.letter.job_type in self.plan.critical


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A message to people."""

    subject: str
    text: str


def critical_alert(plan: SweepPlan, found: Sequence[Found], unseen: Mapping[str, int]) -> Alert:
    """Return the alert about critical dead letters.

    Args:
        plan: the sweep's plan, which names the app.
        found: the new dead letters; at least one.
        unseen: approximate number of messages that the sweep could not look at, by queue.
    """
    return _alert(plan, found, unseen, "critical dead letter")


def summary(plan: SweepPlan, found: Sequence[Found], unseen: Mapping[str, int]) -> Alert:
    """Return the alert about the other dead letters; takes the arguments of `critical_alert`."""
    minutes = int(SUMMARY_EVERY.total_seconds() / 60)
    note = (
        f"The next summary comes in {minutes} minutes at the earliest; what is critical, at once."
    )
    return _alert(plan, found, unseen, "dead letter", note)


def _alert(
    plan: SweepPlan, found: Sequence[Found], unseen: Mapping[str, int], what: str, *notes: str
) -> Alert:
    counted = f"{len(found)} new {what}{'s' if len(found) != 1 else ''}"
    types = ", ".join(dict.fromkeys(each.job_type for each in found))
    paragraphs = [
        f"{counted} in {plan.app}.",
        *_kinds(found),
        *_unseen(found, unseen),
        "What to do",
        *_advice(found),
        *notes,
    ]
    return Alert(
        subject=f"[{plan.app}] {counted}: {types}"[:_MOST_SUBJECT], text="\n\n".join(paragraphs)
    )


def _kinds(found: Sequence[Found]) -> Iterator[str]:
    """Yield a paragraph for each kind, the most frequent first."""
    kinds: dict[tuple[str, ...], list[Found]] = defaultdict(list)
    for each in found:
        kinds[each.queue.name, each.job_type, each.reason, each.error_type].append(each)
    ordered = sorted(kinds.items(), key=lambda kind: (-len(kind[1]), kind[0]))
    for (_, job_type, reason, error), those in ordered[:_MOST_KINDS]:
        why = f"{reason}, {error}" if error else reason
        lines = [f"{len(those)} x {job_type}: {why}", *_places(those[0].queue), *_ids(those)]
        lines += _link(those[0])
        yield "\n".join(lines)
    if rest := sum(len(those) for _, those in ordered[_MOST_KINDS:]):
        yield f"{rest} of other kinds."


def _ids(found: Sequence[Found]) -> Iterator[str]:
    ids = [each.job_id for each in found if each.job_id]
    for position, job_id in enumerate(ids[:_MOST_IDS]):
        yield f"  {'jobs ' if position == 0 else '     '}  {job_id}"
    if len(ids) > _MOST_IDS:
        yield f"         and {len(ids) - _MOST_IDS} more"


def _link(found: Found) -> Iterator[str]:
    """Yield the page of the console that shows a letter and its like, if there is a console."""
    if not found.plan.console:
        return
    told = (("type", found.job_type), ("reason", found.reason), ("error", found.error_type))
    known = [(name, value) for name, value in told if value and value != UNKNOWN]
    query = urlencode([*known, ("queue", found.queue.name)])
    yield f"  see    {found.plan.console}/dead?{query}"


def _unseen(found: Iterable[Found], unseen: Mapping[str, int]) -> Iterator[str]:
    for queue in dict.fromkeys(each.queue.name for each in found):
        if queue in unseen:
            yield f"About {unseen[queue]} more messages of {queue} could not be looked at."


def _places(queue: ParkingQueue) -> Iterator[str]:
    yield f"  queue  {queue.name}"
    if queue.home:
        yield f"  from   {queue.home}"


def _command(verb: str, found: Iterable[Found]) -> str:
    """Return the command about some letters: those of their queues, and of their types if known."""
    found = [*found]
    queues = sorted({each.queue.name for each in found})
    types = sorted({each.job_type for each in found})
    options = [f"--queue {quote(name)}" for name in queues]
    if len(types) <= _MOST_NAMED and UNKNOWN not in types:
        options += [f"--type {quote(name)}" for name in types]
    return " ".join(("headgate dead-letters", verb, *options))


def _advice(found: Iterable[Found]) -> Iterator[str]:
    found = [*found]
    queues = {each.queue.name: each.queue for each in found}.values()
    yield (
        f"`{_command('list', found)}` lists them, and `headgate dead-letters show JOB_ID` shows "
        "one with its attempts and errors; HEADGATE_APP names the app as module:attribute, and "
        "HEADGATE_STAGE the stage."
    )
    for kind in dict.fromkeys(queue.kind for queue in queues):
        those = [each for each in found if each.queue.kind == kind]
        yield _ADVICE[kind].format(replay=_command("replay", those))
    days = min(queue.retention.days for queue in queues)
    yield (
        f"SQS deletes them {days} days after they were sent. Before that each is copied to the "
        f"app's bucket, under {DEAD_LETTERS}, where it is kept for {DEAD_LETTERS_KEPT.days} days."
    )
