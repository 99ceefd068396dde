"""Shrinking of a failing life: every part of its plan that the failure doesn't need is removed."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.plan import Plan

Fails = Callable[[Plan], bool]
"""Returns True if a life by that plan still shows the violation in question."""


def shrunk(plan: Plan, fails: Fails, *, at_most: int = 400) -> Plan:
    """Return the smallest plan found by removing parts, many at once and then one by one.

    Args:
        plan: the plan of a failing life.
        fails: tries a smaller one.
        at_most: maximum number of lives to try.
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
