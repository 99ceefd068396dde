"""The division of a fleet limit among workers: pure arithmetic over each worker's own claim.

- A lone worker gets the whole limit; a new worker finds the others with too much, and reports that
  it is hungry.
- A worker with more than an equal part gives the excess to hungry ones.
- A worker that is hungry despite an equal part gets the tokens that others don't use. Those keep
  slightly more than they use, so that they can start work immediately, and then become hungry too.
- A worker that needs no tokens at all, since it works on other queues, keeps none.
- Hungry workers divide equally whatever the others leave.
- A worker with a job that needs more tokens at once than its part gets them: the others divide the
  rest. Of several such workers the one that has waited longest comes first.

No worker takes another's tokens: each gives up its own, and takes only free ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from headgate.jobs.values.light_dataclass import light_dataclass

_SPARE = 4
"""A worker that gives up unused tokens keeps one in reserve for every four in use."""


class Need(Enum):
    """A worker's need for a limit's tokens since it last reported it."""

    IDLE = auto()
    """No job under the limit was considered."""
    ENOUGH = auto()
    HUNGRY = auto()
    """A job waited, or was not received, because no token was free."""


@light_dataclass(frozen=True, slots=True)
class ShareClaim:
    """The tokens that a worker reports as its own."""

    tokens: int
    hungry: bool
    large: LargeNeed | None = None


@dataclass(frozen=True, slots=True, order=True)
class LargeNeed:
    """A job that needs several tokens at once."""

    since: float
    """Time at which it was first found to wait, in seconds since 1970."""
    tokens: int


def wanted(
    limit: int,
    me: str,
    mine: int,
    in_use: int,
    need: Need,
    others: Mapping[str, ShareClaim],
    large: LargeNeed | None = None,
) -> int:
    """Return the number of a limit's tokens that a worker should have.

    Args:
        limit: the number of tokens of all workers together.
        me: the worker's name.
        mine: the number of tokens that it has.
        in_use: the number that it uses; it may exceed ``mine`` until those tokens are back.
        need: its need.
        others: the claims of the other workers, by name.
        large: the job that its tokens are not enough for, if any.

    Returns:
        at most the tokens that the others leave.
    """
    left = max(0, limit - sum(other.tokens for other in others.values()))
    goal = _fair(limit, me, mine, in_use, need, others)
    waiting = {name: other.large for name, other in others.items() if other.large is not None}
    if large is not None:
        waiting[me] = large
    if waiting:
        first = min(waiting, key=lambda name: (waiting[name], name))
        rest = limit - waiting[first].tokens
        if first == me:
            goal = max(goal, waiting[me].tokens)
        else:
            goal = min(goal, equal_part(rest, me, others.keys() - {first}))
    return min(left, goal)


def _fair(
    limit: int, me: str, mine: int, in_use: int, need: Need, others: Mapping[str, ShareClaim]
) -> int:
    """Return the number of tokens that a worker should have where jobs need one each."""
    hungry = [name for name, other in others.items() if other.hungry]
    if need is Need.HUNGRY:
        kept = sum(other.tokens for other in others.values() if not other.hungry)
        goal = equal_part(limit - kept, me, hungry)
    elif not hungry:
        goal = max(mine, equal_part(limit, me, others))
    else:
        goal = min(mine, equal_part(limit, me, others))
        if any(others[name].tokens >= limit // (len(others) + 1) for name in hungry):
            goal = min(goal, _with_spare(in_use) if need is Need.ENOUGH else 0)
    return goal


def equal_part(total: int, me: str, others: Iterable[str]) -> int:
    """Return one worker's part of an equal division; the first by name get the remainder."""
    names = sorted({me, *others})
    part, remaining = divmod(max(0, total), len(names))
    return part + (names.index(me) < remaining)


def _with_spare(in_use: int) -> int:
    return in_use + max(1, in_use // _SPARE)
