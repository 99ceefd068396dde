"""The division of a fleet limit among workers: pure arithmetic over each worker's own claim.

- A lone worker gets the whole limit; a new worker finds the others with too much, and reports that
  it is hungry.
- A worker with more than an equal part gives the excess to hungry ones.
- A worker that is hungry despite an equal part gets the tokens that others don't use. Those keep
  slightly more than they use, so that they can start work immediately, and then become hungry too.
- A worker that needs no tokens at all, since it works on other queues, keeps none.
- Hungry workers divide equally whatever the others leave. What can't be divided goes to those first
  that work on the most urgent queues, but for the last token, which each has in turn. A single one
  goes by urgency in three turns of four. So urgent jobs start first, and the others still start.
- A worker with a job that needs more tokens at once than its part gets them: the others divide the
  rest. Of several such workers the one that has waited longest comes first.

No worker takes another's tokens: each gives up its own, and takes only free ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count

from headgate.jobs.core.topology import Priority
from headgate.jobs.values.light_dataclass import light_dataclass

_SPARE = 4
"""A worker that gives up unused tokens keeps one in reserve for every four in use."""


TURN_S = 180.0
"""Seconds of a turn. A token that goes to another worker is used by neither for up to twelve."""

_LAP = 4
"""Number of turns of which a single token goes by urgency in all but one."""

UNRANKED = len(Priority)
"""A rank behind those of all priorities."""


class Need(Enum):
    """A worker's need for a limit's tokens since it last reported it."""

    IDLE = auto()
    """No job under the limit was considered."""
    ENOUGH = auto()
    HUNGRY = auto()
    """A job waited, or was not received, because no token was free."""


@light_dataclass(frozen=True, slots=True)
class ShareClaim:
    """The tokens that a worker reports as its own, and its need of more."""

    tokens: int
    hungry: bool
    large: LargeNeed | None = None
    rank: int = UNRANKED
    """Rank of the most urgent priority whose jobs it can start; `UNRANKED` if it doesn't tell."""


@dataclass(frozen=True, slots=True, order=True)
class LargeNeed:
    """A job that needs several tokens at once."""

    since: float
    """Time at which it was first found to wait, in seconds since 1970."""
    tokens: int


def turn_of(now: float) -> int:
    """Return the number of the turn at a time in seconds since 1970."""
    return int(now // TURN_S)


def wanted(
    limit: int,
    me: str,
    mine: ShareClaim,
    in_use: int,
    need: Need,
    others: Mapping[str, ShareClaim],
    turn: int = 0,
) -> int:
    """Return the number of a limit's tokens that a worker should have.

    Args:
        limit: the number of tokens of all workers together.
        me: the worker's name.
        mine: the tokens that it has, and what it is about to report.
        in_use: the number that it uses; it may exceed those until they are back.
        need: its need.
        others: the claims of the other workers, by name.
        turn: the number of the present turn, as `turn_of` returns it.

    Returns:
        at most the tokens that the others leave.
    """
    left = max(0, limit - sum(other.tokens for other in others.values()))
    everyone = _in_turn({**others, me: mine}, turn)
    goal = _fair(limit, me, everyone, in_use, need, turn)
    waiting = {name: each.large for name, each in everyone.items() if each.large is not None}
    if waiting:
        first = min(waiting, key=lambda name: (waiting[name], name))
        if first == me:
            goal = max(goal, waiting[me].tokens)
        else:
            rest = {name: each for name, each in everyone.items() if name != first}
            goal = min(goal, part_of(me, limit - waiting[first].tokens, rest, turn))
    return min(left, goal)


def _in_turn(claims: Mapping[str, ShareClaim], turn: int) -> dict[str, ShareClaim]:
    """Return the claims in the order of this turn, which begins with the next worker's each time.

    It is the order among any of them, so that no token moves because another has become hungry.
    """
    names = sorted(claims)
    # In the first turns of all laps, too, each worker has to come first.
    skipped = next(each for each in count() if math.gcd(_LAP + each, len(names)) == 1)
    start = (turn + turn // _LAP * skipped) % len(names)
    return {name: claims[name] for name in names[start:] + names[:start]}


def _fair(
    limit: int, me: str, everyone: Mapping[str, ShareClaim], in_use: int, need: Need, turn: int
) -> int:
    """Return the number of tokens that a worker should have where jobs need one each."""
    mine = everyone[me].tokens
    hungry = {name: each for name, each in everyone.items() if each.hungry}
    if need is Need.HUNGRY:
        kept = sum(each.tokens for each in everyone.values() if not each.hungry)
        return part_of(me, limit - kept, hungry, turn)
    part = part_of(me, limit, everyone, turn)
    if not hungry:
        return max(mine, part)
    goal = min(mine, part)
    if any(each.tokens >= limit // len(everyone) for each in hungry.values()):
        goal = min(goal, _with_spare(in_use) if need is Need.ENOUGH else 0)
    return goal


def part_of(me: str, total: int, claims: Mapping[str, ShareClaim], turn: int) -> int:
    """Return one worker's part of an equal division among these, which are in this turn's order."""
    part, remaining = divmod(max(0, total), len(claims))
    return part + (remaining > 0 and me in _favoured(remaining, claims, turn))


def _favoured(remaining: int, claims: Mapping[str, ShareClaim], turn: int) -> set[str]:
    """Return the workers that get one token more than the others in this turn."""
    by_rank = remaining - 1 if remaining > 1 else min(1, turn % _LAP)
    ranked = sorted(claims, key=lambda name: claims[name].rank)[:by_rank]
    rest = [name for name in claims if name not in ranked]
    rest.sort(key=lambda name: not claims[name].hungry)
    return {*ranked, *rest[: remaining - by_rank]}


def _with_spare(in_use: int) -> int:
    return in_use + max(1, in_use // _SPARE)
