"""Rules for deployments: queues without a server, unfit functions, data that nobody looks after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.jobs.core.limits import Concurrency, Limits, RateLimit
from headgate.jobs.core.topology import Priority, QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.policies import timeout_of
from headgate.jobs.deployment.checks.places import is_endless, place_of, queues_of
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import GIVE_BACK, ConsumerGroup
from headgate.jobs.deployment.serving import consumed, serving
from headgate.jobs.errors import ConfigurationError, Fault, UnknownQueue
from headgate.jobs.values.light_dataclass import light_dataclass


def deployment_unfit(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A queue without a server, or a function that is not fit for its queues."""
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


def alarm_never_fires(app: App, deployment: Deployment) -> Iterator[Fault]:
    """An alarm on the age of jobs that SQS deletes before they are that old."""
    if deployment.alarms is None:
        return
    for spec in app.topology.queues:
        oldest = deployment.alarms.of(spec.group).oldest
        if oldest >= spec.retention:
            yield Fault(
                rule="alarm-never-fires",
                where=f"queue {spec.name}",
                what=f"its alarm goes off at an age of {oldest}, and it keeps "
                f"messages for {spec.retention}",
                why="Its jobs are deleted unrun before anybody is told",
                instead='Lower "oldest" of the deployment\'s alarms',
                severity="warning",
            )


def alarms_of_no_queue(app: App, deployment: Deployment) -> Iterator[Fault]:
    """Thresholds for a queue group that the app doesn't have."""
    own = deployment.alarms.queues if deployment.alarms is not None else {}
    for name in sorted(own.keys() - set(app.topology.groups)):
        yield Fault(
            rule="alarms-of-no-queue",
            where=f"app {app.name}",
            what=f"the deployment's alarms have thresholds for the queue {name!r}, which the app "
            "doesn't have",
            why="The queue that is meant has the thresholds of all others",
            instead=f"Name one of {', '.join(app.topology.groups)}",
        )


def own_key_in_a_standby(app: App, deployment: Deployment) -> Iterator[Fault]:
    """Payloads that can be opened in the region alone in which they were sealed."""
    if deployment.standby and app.encryption is not None and not app.encryption.keys:
        yield Fault(
            rule="own-key-in-a-standby",
            where=f"app {app.name}",
            what="each region has a key of its own for the payloads",
            why="What was sealed for the other region can't be opened here: jobs out of a spool "
            "and imported schedules are dead-lettered",
            instead="Make a multi-Region key with a replica in the standby's region, under the "
            'same alias in both, and name it: Encryption(keys=["alias/..."])',
            severity="warning",
        )


def nested_of_no_queue(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A nested stack for the alarms of a queue group that the app doesn't have."""
    for name in deployment.nested:
        if name not in app.topology.groups:
            yield Fault(
                rule="nested-of-no-queue",
                where=f"app {app.name}",
                what=f"the deployment names {name!r} as nested, which is no queue group of the app",
                why="The alarms of the one that is meant stay in the stack, which may be too large",
                instead=f"Name one of {', '.join(app.topology.groups)}",
            )


def limits_multiply(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A limit that each worker process keeps on its own, where several run at a time."""
    processes = _processes_by_queue(app, deployment)
    declared = [
        (f"app {app.name}", app.limits, set(processes)),
        *((f"queue {name}", queue.limits, {name}) for name, queue in app.queues.items()),
        *((place_of(job), job.limits, set(job.runs_from)) for job in app.types.values()),
    ]
    for where, limits, queues in declared:
        most = max((processes.get(queue, 0) for queue in queues), default=0)
        if most > 1 and (limit := _of_worker(limits)) is not None:
            yield Fault(
                rule="limits-multiply",
                where=where,
                what=f"its {_told(limit)} counts in each worker process on its own, and up to "
                f"{most} of them run at a time",
                why=f"Together they may do {most} times as much",
                instead='Declare it with scope="fleet", or divide it by the number of processes',
                severity="warning",
            )


def _processes_by_queue(app: App, deployment: Deployment) -> dict[str, int]:
    """Return the worker processes that may receive from each queue group at a time."""
    found: dict[str, int] = {}
    for group in deployment.workers:
        for name in {spec.group for spec in queues_of(app, group)}:
            found[name] = found.get(name, 0) + group.max_tasks * group.processes
    return found


def _told(limit: RateLimit | Concurrency) -> str:
    if isinstance(limit, RateLimit):
        return f"rate limit of {limit.limit:,} in {limit.per.total_seconds():,g} s"
    return f"concurrency of {limit.limit:,}"


def _of_worker(limits: Limits) -> RateLimit | Concurrency | None:
    """Return the first limit of a worker's own. Breakers and budgets for retries adapt."""
    for limit in (limits.rate_limit, limits.concurrency):
        if limit is not None and limit.scope == "worker":
            return limit
    return None


def timeout_above_functions(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A type that may run for longer than the function that runs it."""
    for run in _run_by_functions(app, deployment):
        group, job = run.group, run.job
        longest = timeout_of(app, job)
        if longest <= group.longest_job:
            continue
        declared = job.timeout is not None and not is_endless(longest)
        runs = "has no timeout" if job.timeout is not None else "has no timeout of its own"
        if declared:
            runs = f"may run for {longest}"
        yield Fault(
            rule="timeout-above-functions",
            where=place_of(job),
            what=f"it {runs}, and the function {group.name!r}, which runs {run.what}, ends after "
            f"{group.timeout}, of which the last {GIVE_BACK} are for giving jobs back",
            why="A job that needs longer fails at each of its attempts, whatever its own timeout",
            instead=f"Declare timeout=timedelta(...) of at most {group.longest_job} on the type, "
            f"raise the consumer's timeout, or let workers serve {run.where}",
            severity="error" if declared and not run.overrides else "warning",
        )


def visibility_below_advice(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A queue that shows its messages again before Lambda has tried a throttled batch again."""
    for group in deployment.consumers:
        for spec in queues_of(app, group):
            if not group.hidden <= spec.lane.visibility < group.advised_visibility:
                continue  # less is an error, which `deployment_unfit` reports
            yield Fault(
                rule="visibility-below-advice",
                where=f"queue {spec.name}",
                what=f"it shows a message again after {spec.lane.visibility}, and the function "
                f"{group.name!r} may have it for {group.hidden}",
                why="If Lambda throttles the function, messages of a batch that waits for its "
                "retry are delivered a second time",
                instead=f"Raise its visibility to {group.advised_visibility}, six times the "
                "function's timeout and the window, as AWS advises, or lower the timeout",
                severity="warning",
            )


def nobody_is_told(app: App, deployment: Deployment) -> Iterator[Fault]:
    """Alarms of a stage that keeps its data, or urgent dead letters, without anybody to alert."""
    if deployment.alerts_to:
        return
    for where, what, reported in _to_be_told(app, deployment):
        yield Fault(
            rule="nobody-is-told",
            where=where,
            what=f"{what}, and the deployment's alerts_to is empty",
            why=f"{reported} are reported to a topic without subscribers",
            instead='Write "alerts_to": ["oncall@example.com"] in the deployment, or subscribe '
            "something else to JobSystem.alerts",
            severity="warning",
        )


def budget_without_reader(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A budget that nobody hears of; where there are alarms, `nobody_is_told` says so already."""
    told = deployment.alerts_to or deployment.tickets_to or deployment.alarms is not None
    if told or not deployment.budget_usd or not deployment.keeps_data(app.stage):
        return
    yield Fault(
        rule="budget-without-reader",
        where=f"app {app.name}",
        what=f"it has a budget of {deployment.budget_usd} USD a month, and the deployment's "
        "alerts_to and tickets_to are empty",
        why="A month that exceeds it is reported to a topic without subscribers",
        instead='Write "tickets_to": ["team@example.com"] in the deployment, subscribe something '
        'else to JobSystem.tickets, or have no budget ("budget_usd": 0)',
        severity="warning",
    )


def _to_be_told(app: App, deployment: Deployment) -> Iterator[tuple[str, str, str]]:
    """Yield what people have to know of: its place, the reason, and what is reported."""
    if deployment.alarms is not None and deployment.keeps_data(app.stage):
        yield f"app {app.name}", "it has alarms and keeps its data", "Its alarms"
        return
    for job in app.types.values():
        if job.alert_at_once:
            yield place_of(job), "it has alert_at_once", "Its dead letters"


def no_stage(app: App, deployment: Deployment) -> Iterator[Fault]:
    """An app without a stage, whose deployment doesn't say whether its data is kept."""
    if app.stage is None and deployment.keep_data is None:
        yield Fault(
            rule="no-stage",
            where=f"app {app.name}",
            what="it has no stage, so it is deployed as one to throw away",
            why="A queue that is removed from the app takes its jobs along, and so does the stack "
            "when it is deleted",
            instead='Name a stage (HEADGATE_STAGE, or "headgate:stage" in cdk.json), or write '
            '"keep_data": true or false in the deployment',
            severity="warning",
        )


def unprotected(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A stage that keeps its data, and may be deleted by mistake."""
    if deployment.keeps_data(app.stage) and not deployment.protected:
        yield Fault(
            rule="unprotected",
            where=f"app {app.name}",
            what="it keeps its data, and its stack and table are not protected",
            why="A single command deletes the stack, after which jobs wait without workers, or the "
            "table",
            instead='Write "protected": true in the deployment, once the first deployment has '
            "succeeded",
            severity="warning",
        )


def limits_not_in_functions(app: App, deployment: Deployment) -> Iterator[Fault]:
    """Limits on a type that a function runs, where they are not applied."""
    for run in _run_by_functions(app, deployment):
        group, job = run.group, run.job
        for owner, limits in (
            (place_of(job), job.limits),
            (f"queue {job.queue}", app.queues[job.queue].limits),
            (f"app {app.name}", app.limits),
        ):
            if limits != Limits():
                yield Fault(
                    rule="limits-not-in-functions",
                    where=place_of(job),
                    what=f"the function {group.name!r} runs {run.what}, and {owner} has limits",
                    why="Workers apply limits and breakers; in a function only its concurrency is "
                    "limited",
                    instead=f"Let workers serve {run.where}, or set max_concurrency= of the "
                    "consumer and drop the limits",
                    severity="warning",
                )


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A job type that a function runs."""

    group: ConsumerGroup
    job: JobType[Any, Any]
    overrides: tuple[Priority, ...] = ()
    """The priorities by which alone its jobs come to the function; empty: they do as the type is
    declared. A queue group that doesn't leave its priorities to its types lets every submission
    have each of them."""

    @property
    def what(self) -> str:
        """The jobs of the type that the function runs."""
        return f"those submitted as {self._named}" if self.overrides else "it"

    @property
    def where(self) -> str:
        """The queues from which it does."""
        return f"{self._named} of its queue" if self.overrides else "its queue"

    @property
    def _named(self) -> str:
        return " or ".join(self.overrides)


def _run_by_functions(app: App, deployment: Deployment) -> Iterator[_Run]:
    for group in deployment.consumers:
        specs = queues_of(app, group)
        for job in app.types.values():
            if any(_is_declared_for(job, spec) for spec in specs):
                yield _Run(group=group, job=job)
                continue
            fixed = app.queues[job.queue].fixed
            own = (spec.priority for spec in specs if spec.group == job.queue)
            if overrides := tuple(each for each in own if each in fixed):
                yield _Run(group=group, job=job, overrides=overrides)


def _is_declared_for(job: JobType[Any, Any], spec: QueueSpec) -> bool:
    """Return True if a type's declaration has its jobs run from a queue."""
    if spec.group == job.queue:
        return spec.priority in (job.priority, *job.other_priorities)
    return spec.group in job.runs_from
