"""Output of ``headgate audit``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC

from headgate.jobs.records.audit.entry import AuditEntry
from headgate.ops.views.output import in_line, show, show_json

EXIT_NONE = 3
"""There are no such entries."""


def show_entries(
    entries: Sequence[AuditEntry], following: str, *, skipped: int, as_json: bool
) -> int:
    """Print entries, and where the list goes on; returns the exit code."""
    if as_json:
        told = [asdict(each) for each in entries]
        show_json({"entries": told, "next": following, "skipped": skipped})
        return 0 if entries else EXIT_NONE
    for each in entries:
        _show_entry(each)
    if not entries:
        show("Nothing of the kind is in the audit.")
    if skipped:
        show(f"{skipped:,} items of the audit can't be read, and are left out.")
    if following:
        show(f"There may be more: --after {following}")
    return 0 if entries else EXIT_NONE


def _show_entry(entry: AuditEntry) -> None:
    """Print one or two lines."""
    at = entry.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    show(in_line(f"{at}  {entry.actor}: {entry.action} {entry.target}: {_outcome(entry)}"))
    told = (entry.detail, entry.result, entry.reason and f"because: {entry.reason}")
    if about := "; ".join(filter(None, told)):
        show(in_line(f"    {about}"))


def _outcome(entry: AuditEntry) -> str:
    count = "" if entry.count is None else f", {entry.count:,}"
    match entry.outcome:
        case None:
            return "no outcome is known"
        case _ if entry.error_type:
            return f"{entry.outcome} ({entry.error_type}){count}"
        case _:
            return f"{entry.outcome}{count}"
