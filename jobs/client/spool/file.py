"""The spool's file: SQLite, written through to the disk, shared by any number of processes.

In WAL mode with ``synchronous=FULL`` SQLite's commits return when they are on the disk, and every
method returns after the commit of its writes (`jobs.client.spool.shared_commits`).
https://www.sqlite.org/pragma.html#pragma_synchronous
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate.jobs.client.spool.lease import FileLease
from headgate.jobs.client.spool.locks import KERNEL, SpoolLocks
from headgate.jobs.client.spool.policy import Answer, Spool, SpoolClaim
from headgate.jobs.client.spool.shared_commits import SharedCommits
from headgate.jobs.client.spool.tables import (
    APPLICATION,
    HEADS,
    HELD_BACK,
    INSERT,
    MOST_BYTES,
    OLDEST,
    SCHEMA,
    VERSION,
    row_of,
    totals,
    waiting_of,
)
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.errors import SpoolCorrupt, SpoolError, SpoolFull, SpoolNewer
from headgate.jobs.messages.outgoing import lane_of
from headgate.jobs.submission.prepare import Submission

_PATIENCE_S = 30.0
"""Seconds to wait for another process's transaction, which takes milliseconds."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_opening = threading.Lock()
"""Held while a file is created. POSIX drops all of a process's locks on a file when the process
closes any descriptor of it, so no other thread may have the file open by then.
https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_"""


class SpoolFile:
    """An open spool. Thread-safe; a fork of the process can't use it.

    Any method may raise a `SpoolError`.

    Args:
        spool: the file's path and bounds.
        clock: tells which jobs are due, and the age of leases.

    Raises:
        SpoolCorrupt: it is damaged, or not a spool.
        SpoolNewer: a newer version of Headgate has written it.
        SpoolError: it can't be opened.
    """

    def __init__(self, spool: Spool, clock: Clock) -> None:
        self._spool = spool
        self._clock = clock
        self._process = os.getpid()
        self._reading = threading.Lock()
        with _opening, self._errors():
            _create(spool.path)
            self._writer = _connect(spool.path)
            self._commits = SharedCommits(self._writer, self._errors)
            try:
                self._prepare()
                # In WAL mode readers don't wait for writers, nor for their disk access.
                self._reader = _connect(spool.path)
            except BaseException:
                self._writer.close()
                raise
        self._locks = SpoolLocks(spool.path)

    def close(self) -> None:
        """Close the file, and release this process's leases. Idempotent."""
        with self._commits.lock, self._reading, self._errors():
            self._locks.close()
            self._reader.close()
            self._writer.close()

    def waits(self, queue: str) -> bool:
        """Return True if jobs of this queue, by its physical name, wait to be sent.

        On a FIFO queue jobs that SQS refused count, too: later ones must not overtake them.
        """
        found = (
            "SELECT EXISTS (SELECT 1 FROM job WHERE queue = :queue AND refused IS NULL) OR EXISTS ("
            "SELECT 1 FROM job "
            "WHERE queue = :queue AND refused IS NOT NULL AND deduplication_id IS NOT NULL)"
        )
        with self._reading, self._errors():
            [[yes]] = self._reader.execute(found, {"queue": queue}).fetchall()
        return bool(yes)

    def blocked(self, queue: str) -> frozenset[str]:
        """Return the groups of a FIFO queue whose jobs wait behind one that SQS refused."""
        found = (
            "SELECT DISTINCT message_group FROM job "
            "WHERE queue = :queue AND refused IS NOT NULL AND deduplication_id IS NOT NULL"
        )
        with self._reading, self._errors():
            rows = self._reader.execute(found, {"queue": queue}).fetchall()
        return frozenset(group for [group] in rows)

    def put(self, submissions: Sequence[Submission]) -> int:
        """Keep all of the submissions, behind all others, or none of them.

        A job that is already in the file stays as it is.

        Returns:
            The number of jobs in the file, including these.

        Raises:
            SpoolFull: there is no room for all of them.
        """
        return self._commits.write(self._keep(submissions))

    def put_each(self, calls: Sequence[Sequence[Submission]]) -> list[int | Exception]:
        """Keep several calls' submissions, as `put` does; return its result or error for each."""
        return self._commits.write_each([self._keep(submissions) for submissions in calls])

    def claim(
        self, *, skip: Collection[str] = (), most: Callable[[str], int] = lambda _queue: MAX_BATCH
    ) -> SpoolClaim | None:
        """Lease the most urgent queue that is free, and return its oldest jobs.

        Args:
            skip: queues to leave alone, by their physical names.
            most: returns the number of jobs to take from a queue; fewer are taken if they are
                large.

        Returns:
            The jobs, or None if there is nothing to send.
        """

        def take(db: sqlite3.Connection) -> tuple[str, FileLease, str] | None:
            taken = {*skip, *self._leased(db)}
            heads = json.loads(db.execute(HEADS).fetchall()[0][0])
            free = [(rank, number, queue) for queue, number, rank in heads if queue not in taken]
            if not free:
                return None
            _, _, queue = min(free)
            lease = self._new_lease()
            db.execute("INSERT INTO lease VALUES (?, ?, ?)", [queue, lease.token, lease.until])
            named = {"queue": queue, "most": most(queue), "bytes": MOST_BYTES}
            [[rows]] = db.execute(OLDEST, named).fetchall()
            return queue, lease, rows

        found = self._commits.write(take)
        if found is None:
            return None
        queue, lease, rows = found
        now = self._clock.now()
        return SpoolClaim(
            queue=queue,
            token=lease.token,
            good_until_s=lease.until_s - self._spool.lease.total_seconds() / 2,
            jobs=tuple(waiting_of(row, now) for row in json.loads(rows)),
        )

    def settle(self, claim: SpoolClaim, answer: Answer, *, done: bool = True) -> None:
        """Delete the jobs that have been sent, and set aside those that were refused.

        On a FIFO queue a refused job is set aside with all later jobs of its group.

        Args:
            claim: the claim that the jobs belong to.
            answer: the ends of some of its jobs.
            done: whether to release the queue.
        """
        sent = json.dumps([job.id for job in answer.sent])

        def note(db: sqlite3.Connection) -> None:
            # By id, even if another process has the lease by now: the job has been sent.
            db.execute("DELETE FROM job WHERE id IN (SELECT value FROM json_each(?))", [sent])
            for job, why in answer.refused:
                db.execute("UPDATE job SET refused = ? WHERE id = ?", [why, job.id])
                db.execute(HELD_BACK, {"queue": claim.queue, "lane": lane_of(job.message)})
            if done:
                db.execute(
                    "DELETE FROM lease WHERE queue = ? AND token = ?", [claim.queue, claim.token]
                )

        try:
            self._commits.write(note)
        except SpoolError:
            # Only this process knows that they have been sent: no other may send them again.
            self._locks.settling(settling=bool(answer.sent))
            raise
        self._locks.settling(settling=False)

    def sent_by_others(self) -> bool:
        """Return True if another process sends from the file, or was about to."""
        with self._reading, self._errors():
            [[leases]] = self._reader.execute("SELECT count(*) FROM lease").fetchall()
        return bool(leases)

    def totals(self) -> tuple[int, int]:
        """Return the number of jobs, and the bytes of their messages, including refused ones."""
        with self._reading, self._errors():
            return totals(self._reader)

    # --- within ---------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Create the tables of a new file; check that an existing one is ours before any change."""
        self._check_kind()
        self._writer.execute("PRAGMA journal_mode = WAL")
        with self._commits.transaction() as db:
            if not self._check_kind():
                for statement in SCHEMA:
                    db.execute(statement)
            db.execute("DROP INDEX IF EXISTS job_by_rank")  # of an earlier version
            # A deployment may have removed the cause of the refusals.
            db.execute("UPDATE job SET refused = NULL WHERE refused IS NOT NULL")

    def _check_kind(self) -> bool:
        """Return True if the file has our tables, False for a new file.

        Raises:
            SpoolCorrupt: it is the database of another program.
            SpoolNewer: a newer version of Headgate has written it.
        """
        [[tables]] = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchall()
        [[application]] = self._writer.execute("PRAGMA application_id").fetchall()
        [[version]] = self._writer.execute("PRAGMA user_version").fetchall()
        if tables and application != APPLICATION:
            raise SpoolCorrupt(self._spool.name, "is the database of another program")
        if tables and version > VERSION:
            raise SpoolNewer(
                self._spool.name,
                f"was written by a newer version of Headgate: its schema is {version}, and this "
                f"one reads up to {VERSION}. Let that version send its jobs",
            )
        return bool(tables)

    def _check_room(self, jobs: int, used: int) -> None:
        most_jobs, most_bytes = self._spool.max_jobs, self._spool.max_bytes
        if jobs > most_jobs or used > most_bytes:
            raise SpoolFull(
                self._spool.name,
                f"is full: it would hold {jobs:,} jobs of {used:,} bytes, and may hold "
                f"{most_jobs:,} of {most_bytes:,} (Spool(path, max_jobs=..., max_bytes=...))",
            )

    def _new_lease(self) -> FileLease:
        return FileLease(
            kernel=KERNEL,
            number=self._locks.number,
            until_s=self._clock.monotonic() + self._spool.lease.total_seconds(),
            until=(self._clock.now() + self._spool.lease).timestamp(),
            lasts_s=self._spool.lease.total_seconds(),
        )

    def _leased(self, db: sqlite3.Connection) -> list[str]:
        """Return the queues that are being sent from; delete the leases that no longer hold."""
        held = []
        for queue, token, until in db.execute("SELECT queue, token, until FROM lease").fetchall():
            lease = FileLease.read(token, until, self._spool.lease)
            if lease.holds(self._clock, self._locks):
                held.append(queue)
            else:
                db.execute("DELETE FROM lease WHERE queue = ?", [queue])
        return held

    def _keep(self, submissions: Sequence[Submission]) -> Callable[[sqlite3.Connection], int]:
        rows = [row_of(submission) for submission in submissions]
        size = sum(row["bytes"] for row in rows)
        text = json.dumps(rows)

        def keep(db: sqlite3.Connection) -> int:
            jobs, used = totals(db)
            self._check_room(jobs + len(rows), used + size)
            db.execute(INSERT, [text])
            return jobs + len(rows)

        return keep

    @contextmanager
    def _errors(self) -> Iterator[None]:
        if self._process != os.getpid():
            # https://www.sqlite.org/howtocorrupt.html#_carrying_an_open_database_across_a_fork_
            raise SpoolError(
                self._spool.name,
                "was opened before this process was forked: make the client after the fork, or "
                "first use it there",
            )
        try:
            yield
        except OSError as error:
            raise SpoolError(self._spool.name, f"can't be opened: {error}") from error
        except sqlite3.Error as error:
            # The low byte is the primary code; the other bytes only add detail.
            if (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGED:
                raise SpoolCorrupt(
                    self._spool.name,
                    f"is damaged ({error}): move it away to continue without its jobs; "
                    "SQLite's `.recover` may still read it",
                ) from error
            raise SpoolError(self._spool.name, f"can't be used: {error}") from error


def _create(path: str | os.PathLike[str]) -> None:
    # SQLite would make it readable by all; its log and index inherit the mode of the file.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _connect(path: str | os.PathLike[str]) -> sqlite3.Connection:
    connection = sqlite3.connect(
        Path(path), timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # payloads don't outlive their jobs
    except BaseException:
        connection.close()
        raise
    return connection
