"""The part of the sweep's input by which it replays dead letters: the app in outline.

The sweep's function carries none of the app's code, and its replays none of the app's models: a job
is sent back with the payload that it had. What a replay has to know besides is the queues' names,
how long each type's records are kept, and within which time its jobs have to start.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict

from headgate.jobs.core.existing.resources import NOTHING, Existing, read_existing
from headgate.jobs.core.retention import Keep, RecordsLevel
from headgate.jobs.core.topology import Priority
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.options.replay import Replay
from headgate.jobs.definitions.policies import keep_of, records_of, replay_of
from headgate.jobs.definitions.queue import DEFAULT_QUEUE, Queue


class GroupOutline(BaseModel):
    """A queue group from which types with policies run."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    priorities: tuple[Priority, ...]
    fifo: bool = False


class ReplayRule(BaseModel):
    """A type's policy."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    type: str
    group: str
    accepts_from: tuple[str, ...] = ()
    """The other groups whose queues its jobs may come from, and go back to. Plans of earlier
    versions have none."""
    reasons: tuple[str, ...]
    errors: tuple[str, ...] = ()
    max_replays: int
    after_s: float
    most: int
    records: RecordsLevel
    kept_s: float
    """Seconds for which records of failed jobs are kept."""
    expires_s: float | None = None
    """Seconds within which a job of the type has to start; None for any time."""


class ReplayPlan(BaseModel):
    """The policies of an app's types."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    """The app's name."""
    stage: str | None = None
    groups: tuple[GroupOutline, ...]
    rules: tuple[ReplayRule, ...]
    existing: str = ""
    """The queues of these groups that something else created, as `Existing.to_text` has them; empty
    if there are none. Plans of earlier versions name none."""


def replay_plan(app: App) -> ReplayPlan | None:
    """Return the policies of an app's types, sorted by type; None if there are none."""
    rules = [
        _rule(app, job, policy)
        for _, job in sorted(app.types.items())
        if (policy := replay_of(app, job)) is not None
    ]
    if not rules:
        return None
    used = {group for rule in rules for group in (rule.group, *rule.accepts_from)}
    groups = [
        GroupOutline(name=name, priorities=tuple(queue.lanes), fifo=queue.fifo)
        for name, queue in sorted(app.queues.items())
        if name in used
    ]
    existing = Existing(
        queues={name: found for name, found in app.existing.queues.items() if name in used}
    )
    return ReplayPlan(
        name=app.name,
        stage=app.stage,
        groups=tuple(groups),
        rules=tuple(rules),
        existing=existing.to_text() if existing else "",
    )


def outline_of(plan: ReplayPlan) -> App:
    """Return an app with the queues and the types of a plan; its payloads are any values."""
    queues = {
        group.name: Queue(group.name, priorities=group.priorities, fifo=group.fifo)
        for group in plan.groups
    }
    app = App(
        plan.name,
        stage=plan.stage or "",
        default_queue=queues.pop(DEFAULT_QUEUE, None),
        existing=read_existing(plan.existing) if plan.existing else NOTHING,
    )
    app.include(*queues.values())
    for rule in plan.rules:
        queue = app.queues[rule.group]
        keep = Keep(failed=timedelta(seconds=rule.kept_s))
        priority = next(iter(queue.lanes))
        expires = None if rule.expires_s is None else timedelta(seconds=rule.expires_s)
        queue.define(
            rule.type,
            object,
            priority=priority,
            accepts_from=rule.accepts_from,
            records=rule.records,
            keep=keep,
            expires=expires,
        )
    return app


def _rule(app: App, job: JobType[Any, Any], policy: Replay) -> ReplayRule:
    return ReplayRule(
        type=job.name,
        group=job.queue,
        accepts_from=tuple(group for group in job.runs_from if group != job.queue),
        reasons=policy.reasons,
        errors=policy.errors,
        max_replays=policy.max_replays,
        after_s=policy.after.total_seconds(),
        most=policy.most,
        records=records_of(app, job),
        kept_s=keep_of(app, job).failed.total_seconds(),
        expires_s=None if job.expires is None else job.expires.total_seconds(),
    )
