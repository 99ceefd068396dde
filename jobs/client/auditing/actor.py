"""The actor of what is done through a client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.records.audit.entry import in_one_line
from headgate.jobs.records.cancellation import LONGEST_ACTOR

_acting: ContextVar[str | None] = ContextVar("headgate_actor", default=None)


@contextmanager
def acting_as(actor: str) -> Iterator[None]:
    """Name who acts, for everything that this thread or task does through any client in a block.

    It is for an application through which several people act on one client. The name is in the
    audit, and in the pauses, replays and cancellations that they ask for; nothing checks it.

    Args:
        actor: the name, of 1 to 100 characters.

    Raises:
        SettingsInvalid: the name is empty, or too long.

    Example:
        >>> with acting_as("ada@example.com"):  # doctest: +SKIP
        ...     client.pauses.create(queue="payments", reason="the bank is down")
    """
    token = _acting.set(checked_actor("acting_as(...)", actor))
    try:
        yield
    finally:
        _acting.reset(token)


def current_actor(own: str | None) -> str:
    """Return who acts: by `acting_as`, else the client's ``own`` actor, else this process's."""
    return _acting.get() or own or process_actor()


def process_actor() -> str:
    """Return the user of this process, and its host."""
    # Imported on first use, to keep importing the client fast.
    import getpass
    import socket

    try:
        return in_one_line(f"{getpass.getuser()}@{socket.gethostname()}", LONGEST_ACTOR)
    except (OSError, KeyError):  # a user without a name, as in a container
        return in_one_line(socket.gethostname(), LONGEST_ACTOR)


def checked_actor(owner: str, actor: object) -> str:
    """Return an actor's name in one line.

    Raises:
        SettingsInvalid: it is empty, too long, or no text.
    """
    if not isinstance(actor, str) or not actor.strip() or len(actor) > LONGEST_ACTOR:
        raise SettingsInvalid(
            f"{owner}: an actor's name has 1 to {LONGEST_ACTOR} characters, got {actor!r:.200}"
        )
    return in_one_line(actor, LONGEST_ACTOR)
