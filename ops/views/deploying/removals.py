"""Output of ``headgate diff``: what a deployment would take out of its stack."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from headgate.jobs.deployment.removals import QUEUE, SCHEDULE_GROUP
from headgate.ops.removals import CountedRemoval
from headgate.ops.views.output import in_line, show, show_error, show_json

EXIT_REFUSED = 1
"""Jobs would be lost or stranded, and nobody has accepted that."""

_HOW: dict[str, str] = {
    QUEUE: "Keep it in the app, let nothing submit to it, and wait with `headgate queues drain` "
    "until its jobs have run; or let a type take them along (accepts_from=)",
    SCHEDULE_GROUP: "Keep long_delays and the schedules in the app until its delayed jobs have "
    "fired, and cancel the others (`headgate schedules list`, `headgate jobs cancel`)",
}
"""Ways to get jobs out of a resource first, by its kind."""

_COPY = "Copy what is in it first"


def show_removals(
    found: Sequence[CountedRemoval], *, accepted: Collection[str], as_json: bool
) -> int:
    """Print what is removed; returns the exit code.

    Args:
        found: the removals.
        accepted: the physical names of those that are meant.
        as_json: print one JSON document.
    """
    refused = [each for each in found if not each.is_harmless and each.removal.name not in accepted]
    if as_json:
        show_json([_values(each, accepted) for each in found])
    else:
        _show(found, refused)
    if not refused:
        return 0
    names = " ".join(f"--accept {each.removal.name}" for each in refused)
    show_error(f"refused: deploying this takes jobs away. If that is meant: {names}")
    return EXIT_REFUSED


def _show(found: Sequence[CountedRemoval], refused: Sequence[CountedRemoval]) -> None:
    if not found:
        show("nothing that holds jobs is removed")
    for each in found:
        show(in_line(_sentence(each)))
        if each in refused:
            show(in_line(f"  {_HOW.get(each.removal.kind, _COPY)}."))


def _sentence(each: CountedRemoval) -> str:
    removal = each.removal
    fate = "stays, without the stack" if removal.kept else "is deleted"
    if each.jobs is None:
        held = ""
    elif removal.kind == SCHEDULE_GROUP:
        held = f", with {each.jobs:,} delayed jobs and schedules made at run time"
    else:
        held = f", with {each.jobs:,} messages"
    return f"The {removal.kind} {removal.name} {fate}{held}."


def _values(each: CountedRemoval, accepted: Collection[str]) -> dict[str, Any]:
    removal = each.removal
    return {
        "kind": removal.kind,
        "name": removal.name,
        "kept": removal.kept,
        "jobs": each.jobs,
        "accepted": removal.name in accepted,
        "harmless": each.is_harmless,
    }
