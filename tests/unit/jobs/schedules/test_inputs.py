"""The bridge's inputs as AWS keeps them: each is read as the kind that it was written as."""

from __future__ import annotations

import pytest

from headgate.jobs.definitions.event_rules.event_rule import Occurrence
from headgate.jobs.errors import MessageUnreadable
from headgate.jobs.schedules.delayed_job import DelayedJob
from headgate.jobs.schedules.firing import Firing
from headgate.jobs.schedules.inputs import Input, parse_input, read_input

_JOB = {"type": "report", "schema": 1, "queue": "jobs", "priority": "normal", "queue_name": "q"}

_STORED: list[tuple[type[Input], dict[str, object]]] = [
    (
        Firing,
        {
            "schedule": "report",
            "type": "report",
            "schema": 1,
            "payload": {},
            "queue": "jobs",
            "priority": "normal",
            "queue_name": "shop-jobs-normal",
            "schedule_arn": "arn:s",
            "scheduled_time": "2026-03-01T08:00:00Z",
            "execution_id": "e",
            "attempt_number": "1",
        },
    ),
    (
        Occurrence,
        {
            "kind": "event",
            "job": {
                "rule": "placed",
                "type": "report",
                "schema": 1,
                "queue": "jobs",
                "priority": "normal",
                "queue_name": "shop-jobs-normal",
            },
            "event": {"id": "a-1", "time": "2026-03-01T08:00:00Z", "detail": {"delayed": 1}},
        },
    ),
    (
        DelayedJob,
        {
            "delayed_until": "2026-03-01T08:00:00Z",
            "job_id": "1",
            "type": "report",
            "queue_name": "shop-jobs-normal",
            "body": "{}",
            "attributes": {"JobType": "report"},
        },
    ),
    (
        DelayedJob,
        {
            "delayed_until": "2026-03-01T08:00:00Z",
            "job_id": "1",
            "type": "report",
            "queue_name": "shop.fifo",
            "body": "{}",
            "attributes": {},
            "group": "g",
            "deduplication_id": "d",
            "token": "m-1",
        },
    ),
]


@pytest.mark.parametrize(("kind", "stored"), _STORED)
def test_a_stored_input_is_read_as_its_kind(kind: type[Input], stored: dict[str, object]) -> None:
    given = read_input(stored)
    assert type(given) is kind
    assert given.counts
    assert given.queue_name.startswith("shop")


@pytest.mark.parametrize(
    ("event", "source"),
    [
        (_JOB | {"payload": 1}, "schedule: schedule: Field required"),
        ({"kind": "event", "job": _JOB}, "event rule: job.rule: Field required"),
        ({"delayed_until": 1} | _JOB, "one-time schedule: job_id: Field required"),
    ],
)
def test_an_unreadable_input_names_its_source_and_its_fields(
    event: dict[str, object], source: str
) -> None:
    with pytest.raises(MessageUnreadable, match=f"not that of a Headgate {source}"):
        parse_input(event)
