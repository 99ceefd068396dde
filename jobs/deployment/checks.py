"""Faults of an app's configuration, found before AWS finds them.

Each rule looks at one thing and yields faults. What is wrong with a single value is refused where
it is declared; what is wrong between values that are declared apart is found here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations, islice
from typing import Any, Literal

from pydantic import BaseModel

from headgate.jobs.core.limits import Limits
from headgate.jobs.core.topology import MAX_VISIBILITY, QueueSpec
from headgate.jobs.definitions.app import BACKSTOP_MARGIN, MAX_RECEIVE_COUNT, App
from headgate.jobs.definitions.job_type import LONGEST_TIMEOUT, JobType
from headgate.jobs.definitions.occurrences import FIRST_MOMENT, is_one_time, occurrences, period_of
from headgate.jobs.definitions.schedule import Schedule
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups import GIVE_BACK, ConsumerGroup
from headgate.jobs.deployment.retry_timeline import timeline
from headgate.jobs.deployment.serving import consumed, serving
from headgate.jobs.errors import ConfigurationError, SettingsInvalid, UnknownQueue, did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong."""

    rule: str
    """Its name, which stays the same between versions."""
    where: str
    """The job type or queue."""
    what: str
    why: str
    """What would happen."""
    instead: str
    """What to write."""
    severity: Literal["error", "warning"] = "error"
    """An app with errors is not synthesized."""

    def __str__(self) -> str:
        end = "" if self.what.endswith("?") else "."
        return f"{self.where}: {self.what}{end} {self.why}. {self.instead} [{self.rule}]"


_SUITED_VISIBILITIES = 5
"""A timeout is several times what a job takes: one of up to so many visibility timeouts suits jobs
that take about one."""

Rule = Callable[[App, datetime], Iterator[Fault]]
DeploymentRule = Callable[[App, Deployment], Iterator[Fault]]


def check(app: App, now: datetime, deployment: Deployment | None = None) -> list[Fault]:
    """All faults of an app, errors first. An app without any is fit to be deployed.

    Args:
        app: with all that it declares.
        now: what is in the past can't fire any more; aware.
        deployment: what is to run its jobs; None: it is not looked at.
    """
    found = [fault for rule in RULES for fault in rule(app, now)]
    if deployment is not None:
        found += [fault for rule in DEPLOYMENT_RULES for fault in rule(app, deployment)]
    return sorted(found, key=lambda fault: fault.severity != "error")


def custom_backoff_fails(app: App, _now: datetime) -> Iterator[Fault]:
    """A custom backoff that raises, or returns no delay, for an attempt that may come."""
    for job in app.types.values():
        try:
            timeline(job)
        except SettingsInvalid as error:
            yield Fault(
                rule="custom-backoff-fails",
                where=_type(job),
                what=str(error),
                why="Its retries would fall back on the default policy",
                instead="Mend the function: it is called with each attempt, from 1",
            )


def wait_beyond_visibility(app: App, _now: datetime) -> Iterator[Fault]:
    """A retry that should come later than SQS can hide a message."""
    for job in _with_timeline(app):
        waits = islice(job.retry.backoff.bounds(), job.retry.attempts - 1)
        longest = timedelta(seconds=max((most for _, most in waits), default=0))
        if longest > MAX_VISIBILITY and not has_long_delays(app, job):
            yield Fault(
                rule="wait-beyond-visibility",
                where=_type(job),
                what=f"{job.retry.backoff!r} may wait {longest}",
                why=f"SQS hides a message for {MAX_VISIBILITY} at most, so retries come sooner",
                instead="Lower the backoff's cap to 43200 seconds, have fewer attempts, or use a "
                "standard queue, which keeps to it",
            )


def retries_outlive_retention(app: App, _now: datetime) -> Iterator[Fault]:
    """Attempts that end later than SQS keeps the message."""
    for job in _with_timeline(app):
        queue = app.topology.queue(job.queue, job.priority)
        timeout_s = job.timeout_s if job.timeout_s and not _is_endless(job.timeout_s) else 0.0
        window_s = timeline(job)[-1].latest_s + job.retry.attempts * timeout_s
        if window_s > queue.retention.total_seconds() and not has_long_delays(app, job):
            yield Fault(
                rule="retries-outlive-retention",
                where=_type(job),
                what=f"its {job.retry.attempts} attempts may take {timedelta(seconds=window_s)}",
                why=f"SQS deletes a message after {queue.retention}, so it is dead-lettered before",
                instead="Have fewer attempts, a shorter timeout or a lower cap of the backoff",
            )


def attempts_above_backstop(app: App, _now: datetime) -> Iterator[Fault]:
    """More attempts than SQS's own redrive lets a message have."""
    most = MAX_RECEIVE_COUNT - BACKSTOP_MARGIN
    for job in app.types.values():
        if job.retry.attempts > most:
            yield Fault(
                rule="attempts-above-backstop",
                where=_type(job),
                what=f"it may make {job.retry.attempts} attempts",
                why=f"SQS moves a message away after {MAX_RECEIVE_COUNT} receives, and what is "
                "given back unstarted is received again",
                instead=f"Declare at most {most} attempts",
            )


def dead_letters_expire_first(app: App, _now: datetime) -> Iterator[Fault]:
    """A dead-letter queue that keeps messages no longer than its source."""
    for queue in app.topology.queues:
        if queue.dlq_retention <= queue.retention:
            yield Fault(
                rule="dead-letters-expire-first",
                where=f"queue {queue.name}",
                what=f"its dead letters are kept for {queue.dlq_retention}, it for "
                f"{queue.retention}",
                why="What SQS's own redrive moves keeps its age, and would be deleted on arrival",
                instead="Keep dead letters longer than the queue keeps messages",
            )


def schedule_never_fires(app: App, _now: datetime) -> Iterator[Fault]:
    """A schedule without a single date, in the past either."""
    for job in app.types.values():
        if job.schedule is not None and not _could_ever_fire(job.schedule):
            yield Fault(
                rule="schedule-never-fires",
                where=_type(job),
                what=f"{job.schedule.expression} has no date{_within(job.schedule)}",
                why="EventBridge takes it, and never fires",
                instead="Check the day of month against the month, and the year, start= and end=",
            )


def schedule_over(app: App, now: datetime) -> Iterator[Fault]:
    """A schedule whose dates have all passed.

    Time alone brings it about, so it is no error: it would block deploys, rollbacks included, of
    code that nobody has changed.
    """
    for job in app.types.values():
        schedule = job.schedule
        if schedule is None or _fires_from(schedule, now) or not _could_ever_fire(schedule):
            continue
        yield Fault(
            rule="schedule-over",
            where=_type(job),
            what=f"{schedule.expression} has no date any more{_within(schedule)}",
            why="It fires no more, and stays on AWS as long as it is declared",
            instead="Take schedule= off the type, or give it a date to come",
            severity="warning",
        )


def rate_below_schedule(app: App, _now: datetime) -> Iterator[Fault]:
    """A rate limit that lets through less than a schedule submits."""
    for job in app.types.values():
        every_s = _period_s(job)
        for owner, limits in (
            (_type(job), job.limits),
            (f"queue {job.queue}", app.queues[job.queue].limits),
            (f"app {app.name}", app.limits),
        ):
            limit = limits.rate_limit
            if every_s and limit and limit.limit / limit.per.total_seconds() < 1 / every_s:
                yield Fault(
                    rule="rate-below-schedule",
                    where=_type(job),
                    what=f"it is scheduled every {timedelta(seconds=every_s)}, and the rate limit "
                    f"of {owner} lets {limit.limit} start in {limit.per}",
                    why="Its backlog would grow without end",
                    instead="Raise the limit, or schedule it less often",
                )


def timeout_beyond_lane(app: App, _now: datetime) -> Iterator[Fault]:
    """A type that asks for more time than suits the priority it is declared with."""
    for job in app.types.values():
        lane = app.queues[job.queue].lanes[job.priority]
        suited = _SUITED_VISIBILITIES * lane.visibility
        if job.timeout_s is None or job.timeout_s <= suited.total_seconds():
            continue
        if job.isolation == "process" and _is_endless(job.timeout_s):
            continue  # `no_timeout_in_a_process` tells of it
        yield Fault(
            rule="timeout-beyond-lane",
            where=_type(job),
            what=f"it may run for {timedelta(seconds=job.timeout_s)}, and is {job.priority} on "
            f"{job.queue!r}, whose visibility timeout of {lane.visibility} suits jobs of up to "
            f"{suited}",
            why="It may hold a slot for that long, where others are to start within "
            f"{lane.start_within}",
            instead="Declare a shorter timeout or a lower priority, or a longer visibility for the "
            "lane",
            severity="warning",
        )


def no_timeout_in_a_process(app: App, _now: datetime) -> Iterator[Fault]:
    """A process of its own that nothing ends."""
    for job in app.types.values():
        if job.isolation == "process" and _is_endless(app.timeout_s_of(job)):
            yield Fault(
                rule="no-timeout-in-a-process",
                where=_type(job),
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
                where=_type(job),
                what="its queue is FIFO, and the type has no group_by",
                why="A submission without group= or tenant= is refused",
                instead="Declare group_by=lambda payload: ... on the type",
                severity="warning",
            )


def accepts_from_unknown_queue(app: App, _now: datetime) -> Iterator[Fault]:
    """A type that accepts messages from a queue group which the app lacks."""
    for job in app.types.values():
        for queue in job.runs_from:
            if queue not in app.queues:
                yield Fault(
                    rule="accepts-from-unknown-queue",
                    where=_type(job),
                    what=f"it accepts messages from {queue!r}, and the app {app.name!r} has no "
                    f"such queue: {did_you_mean(queue, app.queues)}",
                    why="Messages of the queue that was meant would be parked as wrong-queue",
                    instead="Name queue groups in accepts_from=, as app.queue(...) names them",
                )


def accepts_ambiguous(app: App, _now: datetime) -> Iterator[Fault]:
    """Two types that read one format from one queue, where no message says whose it is."""
    for queue in app.queues:
        for one, other in combinations(app.types_from(queue), 2):
            if one.accepts is None or other.accepts is None or one.accepts.format == "json":
                continue  # of several types that accept JSON, each message names its own
            if one.accepts.format == other.accepts.format:
                guest, host = (one, other) if one.queue != queue else (other, one)
                yield Fault(
                    rule="accepts-ambiguous",
                    where=_type(guest),
                    what=f"it accepts {one.accepts.format} messages from {queue!r}, and so does "
                    f"{host.name!r}",
                    why="These don't say whose they are, and would be parked as unreadable",
                    instead=f"Take {queue!r} out of its accepts_from=",
                )


def event_fields_unfit(app: App, _now: datetime) -> Iterator[Fault]:
    """An event rule that maps a field which its type's model lacks, or lacks one that it needs."""
    for rule in app.event_rules.values():
        known, needed = _fields_of(rule.type.payload)
        if rule.fields is None or not known:
            continue
        odd, lacking = rule.fields.keys() - known, needed - rule.fields.keys()
        if odd or lacking:
            yield Fault(
                rule="event-fields-unfit",
                where=_type(rule.type),
                what=f"the map of its event rule {rule.name} does not fit its fields: "
                f"unknown {sorted(odd)}, missing {sorted(lacking)}",
                why="Its jobs would be dead-lettered as payload-invalid, or lack what was meant",
                instead="Map each field that the model needs, by the name that it has there",
                severity="error" if lacking else "warning",
            )


def deployment_unfit(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A queue that nobody serves, or a function that is not fit for its queues."""
    try:
        serving(app.topology, deployment)
        for group in deployment.consumers:
            consumed(app.topology, group)
    except (ConfigurationError, UnknownQueue) as error:
        yield Fault(
            rule="deployment-unfit",
            where=f"app {app.name}",
            what=str(error),
            why="Synthesis refuses it",
            instead="Change the deployment, in cdk.json or where the stack is made",
        )


def timeout_above_functions(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A type that may run for longer than the function that runs it."""
    for group, job in _run_by_functions(app, deployment):
        longest_s = app.timeout_s_of(job)
        if longest_s <= group.longest_job.total_seconds():
            continue
        declared = job.timeout_s is not None and not _is_endless(longest_s)
        runs = "has no timeout" if job.timeout_s is not None else "has no timeout of its own"
        if declared:
            runs = f"may run for {timedelta(seconds=longest_s)}"
        yield Fault(
            rule="timeout-above-functions",
            where=_type(job),
            what=f"it {runs}, and the function {group.name!r}, which runs it, ends after "
            f"{group.timeout}, of which the last {GIVE_BACK} are for giving jobs back",
            why="A job that needs longer is interrupted and begins anew, each time",
            instead=f"Declare timeout=timedelta(...) of at most {group.longest_job} on the type, "
            "raise the consumer's timeout, or let workers serve its queue",
            severity="error" if declared else "warning",
        )


def visibility_below_advice(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A queue that shows its messages again before Lambda has tried a throttled batch again."""
    for group in deployment.consumers:
        for spec in _queues_of(app, group):
            if not group.hidden <= spec.lane.visibility < group.advised_visibility:
                continue  # less is an error, which `deployment_unfit` tells of
            yield Fault(
                rule="visibility-below-advice",
                where=f"queue {spec.name}",
                what=f"it shows a message again after {spec.lane.visibility}, and the function "
                f"{group.name!r} may have it for {group.hidden}",
                why="Where Lambda throttles the function, messages of a batch that waits to be "
                "tried again are delivered a second time",
                instead=f"Raise its visibility to {group.advised_visibility}, six times the "
                "function's timeout and the window, as AWS advises, or lower the timeout",
                severity="warning",
            )


def nobody_is_told(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A type whose dead letters people want to know of at once, and no people."""
    if deployment.alerts_to:
        return
    for job in app.types.values():
        if job.critical:
            yield Fault(
                rule="nobody-is-told",
                where=_type(job),
                what="it is critical, and the deployment names nobody in alerts_to",
                why="Its dead letters are told on a topic to which nobody is subscribed",
                instead='Write "alerts_to": ["oncall@example.com"] in the deployment, or subscribe '
                "something else to JobSystem.alerts",
                severity="warning",
            )


def limits_not_in_functions(app: App, deployment: Deployment) -> Iterator[Fault]:
    """Limits of a type that a function runs, which nothing applies there."""
    for group, job in _run_by_functions(app, deployment):
        for owner, limits in (
            (_type(job), job.limits),
            (f"queue {job.queue}", app.queues[job.queue].limits),
            (f"app {app.name}", app.limits),
        ):
            if limits != Limits():
                yield Fault(
                    rule="limits-not-in-functions",
                    where=_type(job),
                    what=f"the function {group.name!r} runs it, and {owner} has limits",
                    why="Workers apply limits and breakers; in a function only its concurrency is "
                    "limited",
                    instead="Let workers serve its queue, or set most= of the consumer and drop "
                    "the limits",
                    severity="warning",
                )


DEPLOYMENT_RULES: tuple[DeploymentRule, ...] = (
    deployment_unfit,
    timeout_above_functions,
    visibility_below_advice,
    nobody_is_told,
    limits_not_in_functions,
)
"""Those that look at what runs the jobs."""

RULES: tuple[Rule, ...] = (
    custom_backoff_fails,
    wait_beyond_visibility,
    retries_outlive_retention,
    attempts_above_backstop,
    dead_letters_expire_first,
    schedule_never_fires,
    schedule_over,
    rate_below_schedule,
    timeout_beyond_lane,
    no_timeout_in_a_process,
    fifo_without_group,
    accepts_from_unknown_queue,
    accepts_ambiguous,
    event_fields_unfit,
)
"""All of them. Two types of one name, a missing handler, contradicting day fields of a cron
expression and values out of range are refused where they are declared or loaded."""


def _type(job: JobType[Any, Any]) -> str:
    return f"type {job.name}"


def has_long_delays(app: App, job: JobType[Any, Any]) -> bool:
    """Whether its jobs go on in another message where SQS can't hold theirs until an attempt."""
    return not any(queue.fifo for name, queue in app.queues.items() if name in job.runs_from)


def _fields_of(payload: Any) -> tuple[frozenset[str], frozenset[str]]:
    """The names of a model's fields in JSON, and those that have no default."""
    if not (isinstance(payload, type) and issubclass(payload, BaseModel)):
        return frozenset(), frozenset()
    fields = {field.alias or name: field for name, field in payload.model_fields.items()}
    needed = (name for name, field in fields.items() if field.is_required())
    return frozenset(fields), frozenset(needed)


def _is_endless(timeout_s: float) -> bool:
    return timeout_s == LONGEST_TIMEOUT.total_seconds()


def _with_timeline(app: App) -> Iterator[JobType[Any, Any]]:
    for job in app.types.values():
        try:
            timeline(job)
        except SettingsInvalid:
            continue  # `custom_backoff_fails` tells of it
        yield job


# --- functions -----------------------------------------------------------------------------------


def _run_by_functions(
    app: App, deployment: Deployment
) -> Iterator[tuple[ConsumerGroup, JobType[Any, Any]]]:
    """Each job type that a function runs, with that function's group."""
    for group in deployment.consumers:
        specs = _queues_of(app, group)
        for job in app.types.values():
            own = app.topology.queue(job.queue, job.priority)
            if any(spec == own or spec.group in job.runs_from[1:] for spec in specs):
                yield group, job


def _queues_of(app: App, group: ConsumerGroup) -> tuple[QueueSpec, ...]:
    try:
        return group.lanes.of(app.topology)
    except (ConfigurationError, UnknownQueue):
        return ()  # `deployment_unfit` tells of it


# --- schedules -----------------------------------------------------------------------------------


def _period_s(job: JobType[Any, Any]) -> float | None:
    """Seconds between two firings of a rate schedule."""
    if job.schedule is None or not job.schedule.expression.startswith("rate("):
        return None
    return period_of(job.schedule.expression).total_seconds()


def _fires_from(schedule: Schedule, since: datetime) -> bool:
    """True if it has a date from then on."""
    try:
        times = occurrences(
            schedule.expression,
            schedule.timezone,
            since=since,
            start=schedule.start,
            end=schedule.end,
        )
        return next(times, None) is not None
    except ValueError:
        return True  # EventBridge may know how to read it


def _could_ever_fire(schedule: Schedule) -> bool:
    return is_one_time(schedule.expression) or _fires_from(schedule, FIRST_MOMENT)


def _within(schedule: Schedule) -> str:
    """The bounds of its dates, for a message."""
    bounds = {"start": schedule.start, "end": schedule.end}
    given = [f"{name}={moment.isoformat()}" for name, moment in bounds.items() if moment]
    return f" with {' and '.join(given)}" if given else ""
