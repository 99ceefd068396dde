"""The spool's file: SQLite, written through to the disk, shared by any number of processes.

Every method is one transaction. SQLite in WAL mode with ``synchronous=FULL`` has a commit on the
disk before it returns. https://www.sqlite.org/pragma.html#pragma_synchronous
"""

from __future__ import annotations

import json
import math
import os
import secrets
import sqlite3
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobs.batching import Lanes
from jobs.errors import SpoolCorrupt, SpoolError, SpoolFull, SpoolNewer
from jobs.messages import lane_of, size_of
from jobs.ports import OutgoingMessage
from jobs.spool import Answer, Claim, Spool, Waiting, remaining_delay_s
from jobs.submission import Submission
from jobs.topology import MAX_BATCH

_APPLICATION = 0x48475350  # "HGSP": what SQLite calls an application id
_VERSION = 1
"""Of the tables, and of what is in them: a new version of the envelope is one of this as well."""

_PATIENCE_S = 30.0
"""How long one process waits for another to end its transaction, which takes milliseconds."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_SCHEMA = (
    """CREATE TABLE job (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        queue TEXT NOT NULL,
        rank INTEGER NOT NULL,
        body TEXT NOT NULL,
        attributes TEXT NOT NULL,
        message_group TEXT,
        deduplication_id TEXT,
        not_before TEXT,
        bytes INTEGER NOT NULL,
        refused TEXT
    )""",
    "CREATE INDEX job_by_rank ON job (rank, number) WHERE refused IS NULL",
    "CREATE INDEX job_by_queue ON job (queue, number) WHERE refused IS NULL",
    "CREATE INDEX job_refused ON job (queue, message_group) WHERE refused IS NOT NULL",
    "CREATE TABLE lease (queue TEXT PRIMARY KEY, token TEXT NOT NULL, until REAL NOT NULL)",
    # Counting by reading would cost more the more there is.
    "CREATE TABLE total (jobs INTEGER NOT NULL, bytes INTEGER NOT NULL)",
    "INSERT INTO total VALUES (0, 0)",
    """CREATE TRIGGER job_added AFTER INSERT ON job BEGIN
        UPDATE total SET jobs = jobs + 1, bytes = bytes + new.bytes;
    END""",
    """CREATE TRIGGER job_removed AFTER DELETE ON job BEGIN
        UPDATE total SET jobs = jobs - 1, bytes = bytes - old.bytes;
    END""",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)

_opening = threading.Lock()
"""Held while a file is created. POSIX drops all of a process's locks on a file when the process
closes any descriptor of it, so nobody here may have it open by then.
https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_"""


class SpoolFile:
    """A spool that is open. Safe to share by threads; a fork of the process can't use it.

    Any method may raise a `SpoolError`.

    Raises:
        SpoolCorrupt: it is damaged, or no spool.
        SpoolNewer: a newer version of Headgate has written it.
        SpoolError: it can't be opened.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._process = os.getpid()
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        with _opening, self._errors():
            _create(spool.path)
            self._writer = _connect(spool.path)
            try:
                self._prepare()
                # In WAL mode readers wait for no writer, not even for its disk.
                self._reader = _connect(spool.path)
            except BaseException:
                self._writer.close()
                raise

    def close(self) -> None:
        """Close it. Idempotent."""
        with self._writing, self._reading, self._errors():
            self._reader.close()
            self._writer.close()

    def waits(self, queue: str) -> bool:
        """Whether jobs of this queue, by its physical name, wait to be sent.

        On a FIFO queue those count that SQS refused: what comes later must not overtake them.
        """
        found = (
            "SELECT EXISTS (SELECT 1 FROM job WHERE queue = :queue AND refused IS NULL) OR EXISTS ("
            "SELECT 1 FROM job "
            "WHERE queue = :queue AND refused IS NOT NULL AND deduplication_id IS NOT NULL)"
        )
        with self._reading, self._errors():
            [[yes]] = self._reader.execute(found, {"queue": queue}).fetchall()
        return bool(yes)

    def put(self, submissions: Sequence[Submission]) -> None:
        """Keep them behind all others, or none of them. A job that is there already stays as it is.

        Raises:
            SpoolFull: there is no room for all of them.
        """
        rows = [_row(submission) for submission in submissions]
        with self._transaction() as db:
            [[jobs, used]] = db.execute("SELECT jobs, bytes FROM total").fetchall()
            self._check_room(jobs + len(rows), used + sum(row["bytes"] for row in rows))
            db.executemany(_INSERT, rows)

    def claim(self, now: datetime, *, skip: Collection[str] = ()) -> Claim | None:
        """Take a batch of the most urgent jobs that nobody else sends, each queue's oldest first.

        Args:
            now: the wall clock; aware.
            skip: queues to leave alone, by their physical names.

        Returns:
            None when there is nothing to send.
        """
        with self._transaction() as db:
            db.execute("DELETE FROM lease WHERE until <= ?", [now.timestamp()])
            left_out = ", ".join("?" * len(skip))
            next_queue = (
                "SELECT queue FROM job WHERE refused IS NULL "  # noqa: S608 - adds question marks
                "AND queue NOT IN (SELECT queue FROM lease) "
                f"AND queue NOT IN ({left_out}) ORDER BY rank, number LIMIT 1"
            )
            found = db.execute(next_queue, list(skip)).fetchone()
            if found is None:
                return None
            [queue] = found
            token = secrets.token_hex(8)
            until = now + self._spool.lease
            db.execute("INSERT INTO lease VALUES (?, ?, ?)", [queue, token, until.timestamp()])
            rows = db.execute(_OLDEST, [queue, MAX_BATCH]).fetchall()
        return Claim(queue=queue, token=token, jobs=_batch([_waiting(row, now) for row in rows]))

    def settle(self, claim: Claim, answer: Answer) -> None:
        """Forget what has been sent, set aside what was refused, and let others have the queue.

        On a FIFO queue a job that was refused is set aside with all that is behind it in its group.
        """
        with self._transaction() as db:
            # By its id, whoever has the lease by now: it has been sent.
            db.executemany("DELETE FROM job WHERE id = ?", [[job.id] for job in answer.sent])
            db.executemany(
                "UPDATE job SET refused = ? WHERE id = ?",
                [[why, job.id] for job, why in answer.refused],
            )
            db.executemany(
                _HELD_BACK,
                [{"queue": claim.queue, "lane": lane_of(job.message)} for job, _ in answer.refused],
            )
            db.execute(
                "DELETE FROM lease WHERE queue = ? AND token = ?", [claim.queue, claim.token]
            )

    def leased_s(self, now: datetime) -> float:
        """How long it is until a lease runs out; infinite if there is none."""
        with self._reading, self._errors():
            [[until]] = self._reader.execute("SELECT min(until) FROM lease").fetchall()
        return math.inf if until is None else float(until) - now.timestamp()

    def totals(self) -> tuple[int, int]:
        """How many jobs it holds, and how many bytes of messages; refused ones are counted."""
        with self._reading, self._errors():
            [[jobs, used]] = self._reader.execute("SELECT jobs, bytes FROM total").fetchall()
        return jobs, used

    # --- within ---------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Make the tables of a new file; of an old one see that it is ours before touching it."""
        self._check_kind()
        self._writer.execute("PRAGMA journal_mode = WAL")
        with self._transaction() as db:
            if not self._check_kind():
                for statement in _SCHEMA:
                    db.execute(statement)
            # What was wrong with them, a deploy may have put right.
            db.execute("UPDATE job SET refused = NULL WHERE refused IS NOT NULL")

    def _check_kind(self) -> bool:
        """Whether it has our tables; false for a new file."""
        [[tables]] = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchall()
        [[application]] = self._writer.execute("PRAGMA application_id").fetchall()
        [[version]] = self._writer.execute("PRAGMA user_version").fetchall()
        if tables and application != _APPLICATION:
            raise SpoolCorrupt(self._spool.name, "is the database of another program")
        if tables and version > _VERSION:
            raise SpoolNewer(
                self._spool.name,
                f"was written by a newer version of Headgate: its schema is {version}, and this "
                f"one reads up to {_VERSION}. Let that version send what is in it",
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

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Alone with the file; what is written is on the disk when this ends without an error."""
        with self._writing, self._errors():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # of a broken file; the first error tells more
                    self._writer.execute("ROLLBACK")
                raise

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
            # Only the low byte is the code; the rest says more exactly what happened.
            if (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGED:
                raise SpoolCorrupt(
                    self._spool.name,
                    f"is damaged ({error}): move it away to go on without what is in it; "
                    "SQLite's `.recover` may still read it",
                ) from error
            raise SpoolError(self._spool.name, f"can't be used: {error}") from error


_COLUMNS = (
    "id",
    "queue",
    "rank",
    "body",
    "attributes",
    "message_group",
    "deduplication_id",
    "not_before",
    "bytes",
)
_WHY_HELD_BACK = "SQS refused one before it in its group"
_INSERT = (
    f"INSERT OR IGNORE INTO job ({', '.join(_COLUMNS)}, refused) "  # noqa: S608 - names from above
    f"VALUES ({', '.join(':' + name for name in _COLUMNS)}, "
    f"(SELECT '{_WHY_HELD_BACK}' FROM job WHERE :deduplication_id IS NOT NULL AND queue = :queue "
    "AND message_group = :message_group AND refused IS NOT NULL LIMIT 1))"
)
_HELD_BACK = (
    f"UPDATE job SET refused = '{_WHY_HELD_BACK}' WHERE queue = :queue "  # noqa: S608 - from above
    "AND deduplication_id IS NOT NULL AND message_group = :lane AND refused IS NULL"
)
_OLDEST = (
    "SELECT id, body, attributes, message_group, deduplication_id, not_before FROM job "
    "WHERE queue = ? AND refused IS NULL ORDER BY number LIMIT ?"
)


def _create(path: str | os.PathLike[str]) -> None:
    # SQLite would make it readable by all; its log and index take over the mode of the file.
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


def _row(submission: Submission) -> dict[str, Any]:
    message, not_before = submission.message, submission.envelope.not_before
    return {
        "id": submission.id,
        "queue": submission.queue.name,
        "rank": submission.envelope.priority.rank,
        "body": message.body,
        "attributes": json.dumps(dict(message.attributes)),
        "message_group": message.group,
        "deduplication_id": message.deduplication_id,
        "not_before": not_before.astimezone(UTC).isoformat() if not_before else None,
        "bytes": size_of(message),
    }


def _waiting(row: Sequence[Any], now: datetime) -> Waiting:
    job_id, body, attributes, group, deduplication_id, not_before = row
    due = datetime.fromisoformat(not_before) if not_before else None
    message = OutgoingMessage(
        body=body,
        attributes=json.loads(attributes),
        delay_s=remaining_delay_s(due, now),
        group=group,
        deduplication_id=deduplication_id,
    )
    return Waiting(id=job_id, message=message)


def _batch(jobs: Sequence[Waiting]) -> tuple[Waiting, ...]:
    """The first of them that fit into a request, and on a FIFO queue one of each group."""
    lanes = Lanes[Waiting](lambda job: lane_of(job.message))
    for job in jobs:
        lanes.add(job)
    return tuple(lanes.take(lambda job: size_of(job.message)))
