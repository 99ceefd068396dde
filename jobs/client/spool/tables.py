"""The spool's tables, and the statements over them.

Rows go in and come out as one JSON text a statement. SQLite gives up Python's lock at each row,
and has to wait for it among busy threads.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headgate.jobs.client.spool.policy import Waiting, remaining_delay_s
from headgate.jobs.core.ports import OutgoingMessage
from headgate.jobs.messages.outgoing import size_of
from headgate.jobs.submission.prepare import Submission

APPLICATION = 0x48475350
"""The letters HGSP: what SQLite calls an application id."""

VERSION = 1
"""Of the tables, and of what is in them: a new version of the envelope is one of this as well."""

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
    # The token says who holds it, see `jobs.client.spool.lease`; what was written before goes by
    # its time.
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
"""Each queue's oldest job: a look into the index for each queue, however long the queues are.
https://sqlite.org/lang_with.html has no loose index scan, so this spells one out."""

MOST_BYTES = 8 * 1024 * 1024
"""Of messages that one claim has in memory; a larger one is claimed alone."""

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
    """A job as `INSERT` takes it, among others."""
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


def waiting_of(row: Sequence[Any], now: datetime) -> Waiting:
    """A job of those that `OLDEST` returns, with what is left of its delay."""
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


def totals(db: sqlite3.Connection) -> tuple[int, int]:
    """The jobs that there are, and the bytes of their messages."""
    [[jobs, used]] = db.execute("SELECT jobs, bytes FROM total").fetchall()
    return jobs, used
