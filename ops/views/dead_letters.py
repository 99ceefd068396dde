"""Output of ``headgate dead-letters``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from headgate.jobs.client.dead_letters.answers import (
    LetterCounts,
    LetterDetails,
    LetterPage,
    LettersExported,
    LettersPurged,
)
from headgate.jobs.dead_letters.counting import CountBy
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.walk import Look
from headgate.ops.views.job import show_attempts
from headgate.ops.views.output import TextTable, in_line, show, show_error, show_json
from headgate.ops.views.spans import in_short

EXIT_LEFT = 1
"""Letters that were to be exported or deleted were left."""
EXIT_NONE = 3
"""There are none."""

_NO_LETTERS = "No dead letters."
_MOST_FAILURES = 5


def show_page(page: LetterPage, limit: int, now: datetime, *, as_json: bool) -> int:
    """Print letters; returns the exit code."""
    if as_json:
        show_json({"dead_letters": [_values(each) for each in page.letters], **_extent(page.look)})
    elif page.letters:
        _letters(page.letters, now)
        if len(page.letters) >= limit:
            show(f"\nThe first {limit:,} that SQS handed out; --limit shows more, `count` counts.")
    else:
        show(_NO_LETTERS)
    if not as_json and len(page.letters) < limit:
        _tell_unseen(page.look)
    return 0 if page.letters else EXIT_NONE


def show_counts(counts: LetterCounts, by: Sequence[CountBy], *, as_json: bool) -> int:
    """Print counts; returns the exit code."""
    if as_json:
        show_json(
            {
                "total": counts.total,
                "groups": [asdict(each) for each in counts.groups],
                **_extent(counts.look),
            }
        )
        return 0 if counts.total else EXIT_NONE
    if counts.total:
        _counts(counts, by)
    else:
        show(_NO_LETTERS)
    _tell_unseen(counts.look)
    return 0 if counts.total else EXIT_NONE


def show_letter(
    named: str, details: LetterDetails | None, *, with_payload: bool, as_json: bool
) -> int:
    """Print all that is known of a letter; returns the exit code."""
    if details is None:
        show_error(
            f"no dead letter that can be seen is of {named}: `headgate jobs show ID` tells what "
            "became of a job; look again if somebody else was looking"
        )
        return EXIT_NONE
    if as_json:
        show_json(_details(details, with_payload=with_payload))
        return 0
    letter = details.letter
    show(in_line(f"{letter.job_id or letter.message_id}  {letter.job_type or 'unknown type'}"))
    for name, value in _facts(details):
        show(in_line(f"  {name:<10} {value}"))
    if details.record is not None:
        show_attempts(details.record)
    if details.record_fault:
        show_error(f"its records could not be read: {details.record_fault}")
    if with_payload:
        _payload(details)
    return 0


def show_exported(outcome: LettersExported, path: str) -> int:
    """Say what was exported; returns the exit code."""
    show(f"{letters_of(outcome.exported)} in {path}")
    _tell_unseen(outcome.look)
    return 0 if outcome.look.complete else EXIT_LEFT


def show_imported(count: int) -> None:
    """Say what was imported."""
    show(f"{letters_of(count)} sent to the queues that they were in")


def tell_purge(counts: LetterCounts, *, copy: bool) -> int:
    """Say what a purge would delete; returns an exit code if that is nothing, and 0 otherwise."""
    if not counts.total:
        show(_NO_LETTERS if counts.look.complete else "No dead letters that can be seen.")
        _tell_unseen(counts.look)
        return EXIT_NONE if counts.look.complete else EXIT_LEFT
    _counts(counts, ("queue", "type"))
    first = "after a copy of each was saved in the app's bucket" if copy else "WITHOUT a copy"
    show(f"{letters_of(counts.total)} would be deleted, {first}.")
    _tell_unseen(counts.look)
    return 0


def show_purged(outcome: LettersPurged) -> int:
    """Say what was purged; returns the exit code."""
    copied = f", {outcome.copied:,} copied to the bucket" if outcome.copied else ", none copied"
    show(f"{letters_of(outcome.purged)} deleted{copied if outcome.purged else ''}")
    show_failures(outcome.failures)
    if outcome.failures:
        show_error(f"{letters_of(len(outcome.failures))} left; the purge ended with these")
        return EXIT_LEFT
    _tell_unseen(outcome.look)
    if not outcome.look.complete:  # those that were selected may be among them
        return EXIT_LEFT
    return 0 if outcome.purged else EXIT_NONE


def letters_of(count: int) -> str:
    """Return a number of dead letters in words."""
    return f"{count:,} dead letter{'' if count == 1 else 's'}"


def show_failures(failures: Sequence[str]) -> None:
    """Print the first reasons for which letters were left."""
    for failure in failures[:_MOST_FAILURES]:
        show_error(failure)


def _letters(letters: Sequence[DeadLetter], now: datetime) -> None:
    """Print two lines for each letter, which fit 80 columns unless its names are long."""
    for each in letters:
        what = f"{each.job_type or 'unknown type'}: {each.reason}"
        show(
            in_line(f"{each.job_id or each.message_id}  {in_short(now - each.died_at):>4}  {what}")
        )
        error = ": ".join(filter(None, (each.error_type, each.error_message)))
        if error:
            show(in_line(f"    {_cut(error, 76)}"))
    show(f"\n{letters_of(len(letters))}; `show ID` has all of one.")


def _counts(counts: LetterCounts, by: Sequence[CountBy]) -> None:
    table = TextTable("count", *by, "first", "last", right=("count",))
    for each in counts.groups:
        names = [each.group[key] or "" for key in by]
        table.row(f"{each.count:,}", *names, _time(each.first), _time(each.last))
    table.show()
    show(f"{letters_of(counts.total)} in all")


def _facts(details: LetterDetails) -> Iterator[tuple[str, str]]:
    letter = details.letter
    yield "reason", letter.reason
    if letter.error_type:
        yield "error", letter.error_type
    if letter.error_message:
        yield "message", letter.error_message
    yield "queue", letter.queue
    yield "from", letter.origin or "unknown"
    for name, value in (
        ("priority", letter.priority),
        ("tenant", letter.tenant),
        ("attempts", letter.attempts),
        ("replays", letter.replays or None),
        ("failed", letter.failed_at and _time(letter.failed_at)),
        ("sent", _time(letter.sent_at)),
        ("message id", letter.message_id),
    ):
        if value is not None:
            yield name, str(value)
    known = {"JobId", "JobType", "Reason", "ErrorType", "ErrorMessage", "Attempts", "FailedAt"}
    for name in sorted(details.attributes.keys() - known):
        yield "attribute", f"{name}: {_cut(details.attributes[name], 200)}"


def _payload(details: LetterDetails) -> None:
    if details.payload_fault:
        show_error(f"its payload could not be read: {details.payload_fault}")
    elif isinstance(details.payload, str):
        show(details.payload)
    else:
        show_json(details.payload)


def _details(details: LetterDetails, *, with_payload: bool) -> dict[str, Any]:
    values = _values(details.letter) | {
        "attributes": details.attributes,
        "record": details.record,
        "record_fault": details.record_fault,
    }
    if with_payload:
        values |= {"payload": details.payload, "payload_fault": details.payload_fault}
    return values


def _values(letter: DeadLetter) -> dict[str, Any]:
    return {name: value for name, value in asdict(letter).items() if name != "content"}


def _extent(look: Look) -> dict[str, Any]:
    return {
        "complete": look.complete,
        "seen": look.seen,
        "unseen": dict(look.unseen),
        "requests": look.requests,
    }


def _tell_unseen(look: Look) -> None:
    for queue, count in look.unseen.items():
        show_error(
            f"about {count:,} more in {queue} were not seen: somebody else looks at them, or "
            "there are too many for one look: look again"
        )


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}Z"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
