"""Output of erasures: what would be deleted, how far it is, and what was left."""

from __future__ import annotations

from headgate.jobs.client.erasing.report import Erased
from headgate.ops.views.output import TextTable, in_line, show, show_error

EXIT_LEFT = 1
"""Something is left: run it again."""

_MOST_LEFT = 10


def tell_progress(erased: Erased) -> None:
    """Say on standard error how far an erasure is."""
    show_error(in_line(f"{erased.found:,} found so far: {erased.jobs:,} jobs"))


def show_planned(planned: Erased) -> None:
    """Print what an erasure would delete."""
    _show_counts(planned)
    show(in_line(f"This would be deleted of {planned.tenant}."))
    _tell_unseen(planned)


def show_erased(erased: Erased) -> int:
    """Print what was deleted; returns the exit code."""
    _show_counts(erased)
    show(in_line(f"This was deleted of {erased.tenant}."))
    if erased.cancelled:
        show("Run it once more when no queue can hold the cancelled jobs any more.")
    for each in erased.left[:_MOST_LEFT]:
        show_error(each)
    _tell_unseen(erased)
    return 0 if erased.complete else EXIT_LEFT


def _show_counts(erased: Erased) -> None:
    table = TextTable("of", "count", right=("count",))
    for name, count in (
        ("dead letters", erased.letters),
        ("copies of dead letters", erased.copies),
        ("schedules", erased.schedules),
        ("jobs with records", erased.jobs),
        ("items of the table", erased.items),
        ("large results", erased.results),
        ("jobs that are cancelled", erased.cancelled),
        ("unreadable, and left", erased.unread),
    ):
        table.row(name, f"{count:,}")
    table.show()


def _tell_unseen(erased: Erased) -> None:
    for queue, count in erased.unseen.items():
        show_error(f"about {count:,} messages of {queue} were not seen: run it again")
