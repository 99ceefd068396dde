"""Writes to a SQLite database by many threads, which share their commits.

Waiting for the disk is most of a write's cost. So the first thread that gets to write carries out
all writes that are pending by then, in one transaction.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Generic, TypeAlias, TypeVar

from headgate.jobs.errors import SpoolFull

T = TypeVar("T")

_Act: TypeAlias = Callable[[sqlite3.Connection], T]
"""Makes one write. It may raise `SpoolFull`, before it has written anything."""


class SharedCommits:
    """Carries out writes. Thread-safe.

    Args:
        db: the connection to write with.
        errors: a context that translates SQLite's errors.
    """

    def __init__(
        self, db: sqlite3.Connection, errors: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._db = db
        self._errors = errors
        self._pending: deque[_Write[Any]] = deque()
        self.lock = threading.Lock()
        """Held while the connection is used."""

    def write(self, act: _Act[T]) -> T:
        """Carry out a write, and return its result once it is on the disk; raise its error."""
        write = _Write(act)
        self._carry_out([write])
        if write.error is not None:
            raise write.error
        return write.result

    def write_each(self, acts: Sequence[_Act[T]]) -> list[T | Exception]:
        """Carry out several writes; return the result or the error of each."""
        writes = [_Write(act) for act in acts]
        self._carry_out(writes)
        return [write.result if write.error is None else write.error for write in writes]

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in an exclusive transaction, which is on the disk once this returns.

        The caller holds the lock, or is alone.
        """
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
            self._db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # the file is broken; the first error tells more
                self._db.execute("ROLLBACK")
            raise

    def _carry_out(self, mine: Sequence[_Write[Any]]) -> None:
        self._pending += mine
        with self.lock:
            waiting = [self._pending.popleft() for _ in range(len(self._pending))]
            # Ours are not among them if another thread took them, and was interrupted.
            missing = [write for write in mine if not write.done and write not in waiting]
            if waiting or missing:
                self._commit([*waiting, *missing])

    def _commit(self, writes: Sequence[_Write[Any]]) -> None:
        try:
            with self._errors(), self.transaction() as db:
                for write in writes:
                    write.carry_out(db)
        except Exception as error:  # noqa: BLE001 - raised by the calls that made the writes
            if len(writes) == 1:
                writes[0].fail(error)
                return
            for write in writes:  # a fault of one write need not affect the others
                self._commit([write])
        else:
            for write in writes:
                write.done = True


class _Write(Generic[T]):
    """A pending write, carried out by the first thread that gets to it."""

    result: T

    def __init__(self, act: _Act[T]) -> None:
        self._act = act
        self.error: Exception | None = None
        self.done = False

    def carry_out(self, db: sqlite3.Connection) -> None:
        """Carry out the write. `SpoolFull` is raised before anything is written, and kept."""
        self.error = None
        try:
            self.result = self._act(db)
        except SpoolFull as error:
            self.error = error

    def fail(self, error: Exception) -> None:
        """Mark the write as failed."""
        self.error, self.done = error, True
