"""Output of ``headgate diff``: what a deployment would take out of its stack."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from headgate.jobs.deployment.removals import KEY, QUEUE, SCHEDULE_GROUP
from headgate.ops.removals import CountedRemoval, StackRemovals
from headgate.ops.views.output import in_line, show, show_error, show_json

EXIT_REFUSED = 1
"""Jobs would be lost or stranded, and nobody has accepted that."""

_HOW: dict[str, str] = {
    QUEUE: "Keep it in the app, let nothing submit to it, and wait with `headgate queues drain` "
    "until its jobs have run; or let a type take them along (accepts_from=)",
    SCHEDULE_GROUP: "Keep long_delays and the schedules in the app until its delayed jobs have "
    "fired, and cancel the others (`headgate schedules list`, `headgate jobs cancel`)",
    KEY: "Keep encryption= in the app, and submit nothing, until no queue, delay or dead letter is "
    "left that it has sealed",
}
"""Ways to get jobs out of a resource first, by its kind."""

_COPY = "Copy what is in it first"


def show_removals(
    stacks: Sequence[StackRemovals],
    *,
    accepted: Collection[str],
    kept: Mapping[str, str],
    as_json: bool,
) -> int:
    """Print what is removed; returns the exit code.

    Args:
        stacks: the removals of each stack.
        accepted: the physical names of those that are meant, in whichever stack.
        kept: what to write so that a queue stays, by its physical name (`ops.removals.keeping`).
        as_json: print one JSON document.
    """
    refused = [
        each
        for stack in stacks
        for each in stack.found or ()
        if not each.is_harmless and each.removal.name not in accepted
    ]
    if as_json:
        found = [(stack, each) for stack in stacks for each in stack.found or ()]
        show_json([_values(stack, each, accepted) for stack, each in found])
    else:
        for stack in stacks:
            _show(stack, refused, kept, with_place=len(stacks) > 1)
    if not refused:
        return 0
    # Once for both regions of a stage with a standby, which have the same names.
    names = " ".join(f"--accept {name}" for name in dict.fromkeys(r.removal.name for r in refused))
    show_error(f"refused: deploying this takes jobs away. If that is meant: {names}")
    return EXIT_REFUSED


def _show(
    stack: StackRemovals,
    refused: Sequence[CountedRemoval],
    kept: Mapping[str, str],
    *,
    with_place: bool,
) -> None:
    if stack.found is None:
        where = stack.region or "the region of AWS's settings"
        show(in_line(f"the stack {stack.stack} is not deployed in {where}: nothing is removed"))
        return
    if with_place:
        show(in_line(f"{stack.stack} in {stack.region}:"))
    if not stack.found:
        show("nothing that holds jobs is removed")
    for each in stack.found:
        show(in_line(_sentence(each)))
        if each in refused:
            show(in_line(f"  {_HOW.get(each.removal.kind, _COPY)}."))
        if each.removal.name in kept:
            show(in_line(f"  To keep it, {kept[each.removal.name]}."))


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


def _values(
    stack: StackRemovals, each: CountedRemoval, accepted: Collection[str]
) -> dict[str, Any]:
    removal = each.removal
    return {
        "stack": stack.stack,
        "region": stack.region,
        "kind": removal.kind,
        "name": removal.name,
        "kept": removal.kept,
        "jobs": each.jobs,
        "accepted": removal.name in accepted,
        "harmless": each.is_harmless,
    }
