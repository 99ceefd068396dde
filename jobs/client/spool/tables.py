"""The spool's tables, and the statements over them.

Rows go in and come out as one JSON text per statement, because Python's sqlite3 releases the GIL at
each row, and then has to wait for it among busy threads.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headgate.jobs.client.spool.policy import SpooledJob, remaining_delay_s
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.submission.prepare import Submission

APPLICATION = 0x48475350
"""SQLite's application id: the letters HGSP."""

VERSION = 1
"""Version of the tables and their contents; increased with the envelope's version, too."""

SCHEMA = (
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
    "CREATE INDEX job_by_queue ON job (queue, number) WHERE refused IS NULL",
    "CREATE INDEX job_refused ON job (queue, message_group) WHERE refused IS NOT NULL",
    # The token tells the holder, see `jobs.client.spool.lease`; tokens of earlier versions go by
    # their time.
    "CREATE TABLE lease (queue TEXT PRIMARY KEY, token TEXT NOT NULL, until REAL NOT NULL)",
    # Counting rows would cost more the more there are.
    "CREATE TABLE total (jobs INTEGER NOT NULL, bytes INTEGER NOT NULL)",
    "INSERT INTO total VALUES (0, 0)",
    """CREATE TRIGGER job_added AFTER INSERT ON job BEGIN
        UPDATE total SET jobs = jobs + 1, bytes = bytes + new.bytes;
    END""",
    """CREATE TRIGGER job_removed AFTER DELETE ON job BEGIN
        UPDATE total SET jobs = jobs - 1, bytes = bytes - old.bytes;
    END""",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)

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
_VALUES = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in _COLUMNS)
INSERT = (
    f"INSERT OR IGNORE INTO job ({', '.join(_COLUMNS)}, refused) "  # noqa: S608 - names from above
    f"SELECT *, (SELECT '{_WHY_HELD_BACK}' FROM job WHERE added.deduplication_id IS NOT NULL "
    "AND queue = added.queue AND message_group = added.message_group AND refused IS NOT NULL "
    f"LIMIT 1) FROM (SELECT {_VALUES} FROM json_each(?)) AS added WHERE TRUE"
)
HELD_BACK = (
    f"UPDATE job SET refused = '{_WHY_HELD_BACK}' WHERE queue = :queue "  # noqa: S608 - from above
    "AND deduplication_id IS NOT NULL AND message_group = :lane AND refused IS NULL"
)
HEADS = """
    WITH RECURSIVE head(queue) AS (
        SELECT min(queue) FROM job WHERE refused IS NULL
        UNION ALL
        SELECT (SELECT min(queue) FROM job WHERE refused IS NULL AND queue > head.queue) FROM head
        WHERE head.queue IS NOT NULL
    )
    SELECT json_group_array(json_array(job.queue, job.number, job.rank)) FROM head JOIN job
    ON job.number = (
        SELECT min(number) FROM job WHERE queue = head.queue AND refused IS NULL
    )
"""
"""Selects each queue's oldest job, by one index lookup per queue, however long the queues are.
SQLite has no loose index scan, so this spells one out; see https://sqlite.org/lang_with.html"""

MOST_BYTES = 8 * 1024 * 1024
"""Maximum size of a claim's messages in memory, in bytes; a larger message is claimed alone."""

OLDEST = """
    WITH oldest AS (
        SELECT number, bytes, sum(bytes) OVER (ORDER BY number) AS upto FROM (
            SELECT number, bytes FROM job WHERE queue = :queue AND refused IS NULL
            ORDER BY number LIMIT :most
        )
    )
    SELECT json_group_array(
        json_array(id, body, attributes, message_group, deduplication_id, not_before)
    ) FROM (
        SELECT * FROM job WHERE queue = :queue AND refused IS NULL AND number <= (
            SELECT max(number) FROM oldest WHERE upto <= :bytes OR upto = bytes
        ) ORDER BY number
    )
"""


def row_of(submission: Submission) -> dict[str, Any]:
    """Return a job as one of the rows that `INSERT` takes."""
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
        "bytes": message.size,
    }


def waiting_of(row: Sequence[Any], now: datetime) -> SpooledJob:
    """Return a job from a row of `OLDEST`, with the rest of its delay."""
    job_id, body, attributes, group, deduplication_id, not_before = row
    due = datetime.fromisoformat(not_before) if not_before else None
    message = OutgoingMessage(
        body=body,
        attributes=json.loads(attributes),
        delay_s=remaining_delay_s(due, now),
        group=group,
        deduplication_id=deduplication_id,
    )
    return SpooledJob(id=job_id, message=message)


def totals(db: sqlite3.Connection) -> tuple[int, int]:
    """Return the number of jobs, and the bytes of their messages."""
    [[jobs, used]] = db.execute("SELECT jobs, bytes FROM total").fetchall()
    return jobs, used
