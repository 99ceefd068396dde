"""How a limit of the fleet is divided: pure arithmetic over what each worker says of itself.

- Who is alone has everything; who comes finds the others with too much, and says that it is hungry.
- Who has more than an equal part gives the rest to whoever is hungry.
- Who is hungry though it has an equal part gets what others don't use. They keep a little more
  than they use, so that they can begin at once when work comes, and then are hungry themselves.
- Who is not asked for jobs at all, since it works for other queues, keeps nothing.
- The hungry share equally in what the others leave.

Nobody takes what another has: each gives up by itself, and takes what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

_SPARE = 4
"""Who gives up what it does not use keeps a fourth more than it uses."""


class Need(Enum):
    """What a worker has seen of a limit since it last said so."""

    IDLE = auto()
    """No job of it was asked about."""
    ENOUGH = auto()
    HUNGRY = auto()
    """A job waited, or was not received, for want of a token."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a worker says that it has."""

    tokens: int
    hungry: bool


def wanted(
    limit: int, me: str, mine: int, in_use: int, need: Need, others: Mapping[str, Claim]
) -> int:
    """How many tokens a worker should have of a limit.

    Args:
        limit: tokens of all together.
        me: the worker's name.
        mine: what it has.
        in_use: what it uses; it may be more than ``mine``, and is out until it is back.
        need: what it has seen.
        others: what the others say.

    Returns:
        at most what the others leave.
    """
    left = max(0, limit - sum(other.tokens for other in others.values()))
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
    return min(left, goal)


def equal_part(total: int, me: str, others: Iterable[str]) -> int:
    """What one of several gets when they divide a whole; the first by name get what remains."""
    names = sorted({me, *others})
    part, remaining = divmod(max(0, total), len(names))
    return part + (names.index(me) < remaining)


def _with_spare(in_use: int) -> int:
    return in_use + max(1, in_use // _SPARE)
