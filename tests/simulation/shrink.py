"""Making a failing life smaller: all is taken out of its plan without which it fails alike."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.plan import Plan

Fails = Callable[[Plan], bool]
"""Whether a life by that plan still shows the violation that is looked for."""


def shrunk(plan: Plan, fails: Fails, *, at_most: int = 400) -> Plan:
    """The smallest plan found by taking parts away, many at once and then one by one.

    Args:
        plan: of a life that fails.
        fails: tries a smaller one.
        at_most: lives to try.
    """
    tries = 0

    def still_fails(candidate: Plan) -> bool:
        nonlocal tries
        tries += 1
        return fails(candidate)

    size = max(1, len(plan.parts()) // 2)
    while tries < at_most:
        parts, progress = plan.parts(), False
        at = 0
        while at < len(parts) and tries < at_most:
            chunk = parts[at : at + size]
            candidate = plan.without(chunk)
            if candidate.types and still_fails(candidate):
                plan, progress = candidate, True
                parts = plan.parts()
            else:
                at += size
        if size == 1 and not progress:
            break
        size = max(1, size // 2) if not progress or size > 1 else 1
    return plan
