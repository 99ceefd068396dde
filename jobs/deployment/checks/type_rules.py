"""Rules for job types that don't fit their queues, their messages or their events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import combinations
from typing import Any, Literal

from pydantic import BaseModel

from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.policies import keeps_results, timeout_of, types_from
from headgate.jobs.deployment.checks.places import is_endless, place_of
from headgate.jobs.errors import ConfigurationError, Fault, did_you_mean
from headgate.jobs.values.kinds import bare
from headgate.jobs.values.round_trips import Loss

_SUITED_VISIBILITIES = 5
"""Visibility timeouts that a job's timeout may last: a timeout is several times a job's usual run
time, so one of up to this many suits jobs that take about one."""


def timeout_beyond_lane(app: App, _now: datetime) -> Iterator[Fault]:
    """A type whose timeout is too long for the priority that it is declared with."""
    for job in app.types.values():
        lane = app.queues[job.queue].lanes[job.priority]
        suited = _SUITED_VISIBILITIES * lane.visibility
        if job.timeout is None or job.timeout <= suited:
            continue
        if job.isolation == "process" and is_endless(job.timeout):
            continue  # `no_timeout_in_a_process` reports it
        yield Fault(
            rule="timeout-beyond-lane",
            where=place_of(job),
            what=f"it may run for {job.timeout}, and is {job.priority} on {job.queue!r}, whose "
            f"visibility timeout of {lane.visibility} suits jobs of up to {suited}",
            why="It may hold a slot for that long, where others are to start within "
            f"{lane.start_within}",
            instead="Declare a shorter timeout or a lower priority, or a longer visibility for the "
            "lane",
            severity="warning",
        )


def no_timeout_in_a_process(app: App, _now: datetime) -> Iterator[Fault]:
    """A type that runs in a process of its own, without a timeout to end it."""
    for job in app.types.values():
        if job.isolation == "process" and is_endless(timeout_of(app, job)):
            yield Fault(
                rule="no-timeout-in-a-process",
                where=place_of(job),
                what="it has isolation='process' and no timeout",
                why="A child that hangs is only killed after SQS's 12 hours",
                instead="Declare timeout=timedelta(...)",
                severity="warning",
            )


def fifo_without_group(app: App, _now: datetime) -> Iterator[Fault]:
    """A type of a FIFO queue whose every submission has to name a group."""
    for job in app.types.values():
        if app.queues[job.queue].fifo and job.group_by is None:
            yield Fault(
                rule="fifo-without-group",
                where=place_of(job),
                what="its queue is FIFO, and the type has no group_by",
                why="A submission without group= or tenant= is refused",
                instead="Declare group_by=lambda payload: ... on the type",
                severity="warning",
            )


def batch_never_full(app: App, _now: datetime) -> Iterator[Fault]:
    """A type whose calls never have as many jobs as its batch may, since a limit lets fewer run."""
    for job in app.types.values():
        if (batch := job.batch) is None:
            continue
        for owner in (app, app.queues[job.queue], job):
            limit = owner.limits.concurrency
            if limit is not None and limit.key is None and limit.limit < batch.size:
                yield Fault(
                    rule="batch-never-full",
                    where=place_of(job),
                    what=f"its calls take up to {batch.size} jobs, and Concurrency({limit.limit}) "
                    f"of {owner!r} lets {limit.limit} run at once",
                    why="A limit counts the jobs of a call, and not the call: each call waits for "
                    "jobs that can't join it",
                    instead=f"Declare Batch(size={limit.limit}), or a higher limit",
                    severity="warning",
                )


def batch_outwaits_expiry(app: App, _now: datetime) -> Iterator[Fault]:
    """A type whose jobs may expire while they wait for others to join them."""
    for job in app.types.values():
        batch, expires = job.batch, job.expires
        if batch is not None and expires is not None and expires <= batch.wait:
            yield Fault(
                rule="batch-outwaits-expiry",
                where=place_of(job),
                what=f"its jobs expire after {expires}, and wait for {batch.wait} for others",
                why="They would be dropped in place of being run",
                instead="Declare a shorter Batch(wait=...), or a longer expires=",
            )


def accepts_from_unknown_queue(app: App, _now: datetime) -> Iterator[Fault]:
    """A type that accepts messages from a queue group that the app doesn't have."""
    for job in app.types.values():
        for queue in job.runs_from:
            if queue not in app.queues:
                yield Fault(
                    rule="accepts-from-unknown-queue",
                    where=place_of(job),
                    what=f"it accepts messages from {queue!r}, and the app {app.name!r} has no "
                    f"such queue: {did_you_mean(queue, app.queues)}",
                    why="Messages of the intended queue would be parked as wrong-queue",
                    instead="Name queue groups in accepts_from=, as app.queue(...) names them",
                )


def accepts_ambiguous(app: App, _now: datetime) -> Iterator[Fault]:
    """Two types that read one format from one queue, where messages don't name their type."""
    for queue in app.queues:
        for one, other in combinations(types_from(app, queue), 2):
            if one.accepts is None or other.accepts is None or one.accepts.format == "json":
                continue  # each JSON message names its own type
            if one.accepts.format == other.accepts.format:
                guest, host = (one, other) if one.queue != queue else (other, one)
                yield Fault(
                    rule="accepts-ambiguous",
                    where=place_of(guest),
                    what=f"it accepts {one.accepts.format} messages from {queue!r}, and so does "
                    f"{host.name!r}",
                    why="These don't name their type, and would be parked as unreadable",
                    instead=f"Take {queue!r} out of its accepts_from=",
                )


def event_fields_unfit(app: App, _now: datetime) -> Iterator[Fault]:
    """An event rule that maps a field unknown to its type's model, or misses one that it needs."""
    for rule in app.event_rules.values():
        known, needed = _fields_of(rule.type.payload)
        if rule.fields is None or not known:
            continue
        odd, lacking = rule.fields.keys() - known, needed - rule.fields.keys()
        if odd or lacking:
            yield Fault(
                rule="event-fields-unfit",
                where=place_of(rule.type),
                what=f"the map of its event rule {rule.name} does not fit its fields: "
                f"unknown {sorted(odd)}, missing {sorted(lacking)}",
                why="Its jobs would be dead-lettered as payload-invalid, or lack data",
                instead="Map each field that the model needs, by its name in the model",
                severity="error" if lacking else "warning",
            )


def payload_lost_in_json(app: App, _now: datetime) -> Iterator[Fault]:
    """A field of a payload that JSON brings to the handler as something else."""
    for job in app.types.values():
        if job.accepts is not None:
            continue  # its payloads are written by others, and only read here
        for loss in _found(job.payload_losses):
            yield _lost(
                loss, job, "payload", why="A submission that would lose its value is refused"
            )


def result_lost_in_json(app: App, _now: datetime) -> Iterator[Fault]:
    """A field of a kept result that JSON brings back as something else."""
    for job in app.types.values():
        if keeps_results(app, job):
            for loss in _found(job.result_losses):
                yield _lost(loss, job, "result", why="result() returns it without its value")


def _found(losses: Callable[[], list[Loss]]) -> list[Loss]:
    try:
        return losses()
    except ConfigurationError:
        return []  # of a type that pydantic doesn't know: its workers refuse to start, and say why


def _lost(
    loss: Loss, job: JobType[Any, Any], part: Literal["payload", "result"], *, why: str
) -> Fault:
    how = f"pydantic writes the field as {loss.written!r}, and reads it as {loss.read!r}"
    if loss.encoding:
        how = f"pydantic writes its bytes as {loss.encoding}, and does not read them so"
    elif loss.is_secret:
        how = "pydantic writes this secret as asterisks"
    return Fault(
        rule=f"{part}-lost-in-json",
        where=place_of(job),
        what=f"{loss.place}, in its {part}: {how}",
        why=why,
        instead=loss.instead[0].upper() + loss.instead[1:],
        severity="warning",
    )


def _fields_of(payload: Any) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of a model's fields in JSON, and of those without a default."""
    payload = bare(payload)
    if not (isinstance(payload, type) and issubclass(payload, BaseModel)):
        return frozenset(), frozenset()
    fields = {field.alias or name: field for name, field in payload.model_fields.items()}
    needed = (name for name, field in fields.items() if field.is_required())
    return frozenset(fields), frozenset(needed)
