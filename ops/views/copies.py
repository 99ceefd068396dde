"""Output of ``headgate dead-letters copies`` and ``restore``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headgate.jobs.client.dead_letters.copying import CopyDetails, CopyPage, LettersRestored
from headgate.jobs.dead_letters.archive import LetterCopy
from headgate.jobs.dead_letters.replaying.report import MAX_LISTED
from headgate.ops.views.dead_letters import EXIT_LEFT, EXIT_NONE, letters_of, show_failures
from headgate.ops.views.output import in_line, show, show_error, show_json

_NO_COPIES = "No copies of dead letters."


def show_copies(page: CopyPage, *, as_json: bool) -> int:
    """Print copies; returns the exit code."""
    if as_json:
        copies = [_values(each) for each in page.copies]
        show_json({"copies": copies, "complete": page.complete, "requests": page.requests})
    elif page.copies:
        for each in page.copies:
            _line(each)
        if not page.complete:
            show(f"\nThe first {len(page.copies):,}, of the latest days; --limit shows more.")
    else:
        show(_NO_COPIES)
    return 0 if page.copies else EXIT_NONE


def show_copy(named: str, details: CopyDetails | None, *, with_payload: bool, as_json: bool) -> int:
    """Print all that a copy tells; returns the exit code."""
    if details is None:
        show_error(
            f"no copy of a dead letter is of {named}: it may lie in its queue still, or S3 "
            "has deleted the copy after its year"
        )
        return EXIT_NONE
    payload = {"payload": details.payload, "payload_fault": details.payload_fault}
    if as_json:
        known = _values(details.copy) | {"attributes": details.attributes}
        show_json(known | (payload if with_payload else {}))
        return 0
    _line(details.copy)
    letter = details.copy.letter
    for name, value in (
        ("message", letter.error_message),
        ("from", letter.origin or "unknown"),
        ("tenant", letter.tenant),
        ("attempts", letter.attempts),
        ("object", details.copy.key),
    ):
        if value:
            show(in_line(f"  {name:<10} {value}"))
    if with_payload and details.payload_fault:
        show_error(f"its payload could not be read: {details.payload_fault}")
    elif with_payload:
        show_json(details.payload)
    return 0


def tell_restore(page: CopyPage, *, include_superseded: bool) -> int:
    """Say how many letters would be restored; returns an exit code if there are none."""
    if not page.copies:
        show(_NO_COPIES)
        return EXIT_NONE
    more = "" if page.complete else " and more"
    show(
        f"{letters_of(len(page.copies))}{more} would be sent to the queues that they were in"
        f"{'' if include_superseded else ', except those of jobs that have gone on since'}."
    )
    return 0


def show_restored(outcome: LettersRestored) -> int:
    """Say what was restored; returns the exit code."""
    show_failures(outcome.failures)
    if outcome.failures:
        show_error(f"{letters_of(len(outcome.failures))} left")
    if outcome.superseded:
        _tell_superseded(outcome)
    if not outcome.restored and not outcome.failures and not outcome.superseded:
        show(_NO_COPIES)
        return EXIT_NONE
    show(
        f"{letters_of(outcome.restored)} sent to the queues that they were in; "
        "`replay` sends them on"
    )
    return EXIT_LEFT if outcome.failures else 0


def _tell_superseded(outcome: LettersRestored) -> None:
    listed = outcome.superseded_jobs
    show(
        f"{letters_of(outcome.superseded)} left: by their records these jobs have completed, been "
        "replayed or ended otherwise since; --include-superseded sends them too"
    )
    for job_id in listed:
        show(in_line(f"  {job_id}"))
    if outcome.superseded > len(listed) == MAX_LISTED:
        show(f"  and more; these are the first {MAX_LISTED}")


def _line(copy: LetterCopy) -> None:
    letter = copy.letter
    what = f"{letter.job_type or 'unknown type'}: {letter.reason}"
    show(in_line(f"{letter.job_id or letter.message_id}  {what}"))
    show(
        in_line(
            f"    {letter.error_type or 'no error'}, died {letter.died_at:%Y-%m-%d}, "
            f"in {letter.queue}, kept until {copy.expires_at:%Y-%m-%d}"
        )
    )


def _values(copy: LetterCopy) -> dict[str, Any]:
    values = {name: value for name, value in asdict(copy.letter).items() if name != "content"}
    return values | {
        "key": copy.key,
        "stored_at": copy.stored_at,
        "expires_at": copy.expires_at,
    }
