"""The alarms of an app as a whole: idle workers, schedules, functions, and queues set aside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal

from headgate.infra.monitoring import metrics
from headgate.infra.monitoring.maths import filled, numbered, rate, total
from headgate.infra.monitoring.rule import APP, Rule
from headgate.jobs.core.topology import QueueSpec, Topology
from headgate.jobs.deployment.alarms.thresholds import MOST_METRICS, AlarmKind
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup

FAILURES = 3
"""Minimum of failures in 15 minutes for an alarm; fewer, of one function or of schedules, are left
to retries."""

WORKERS = "workers"
"""The name of workers that run elsewhere."""

_POLLED = 2
"""Number of queues whose receives show polling; two, since a limit may close one."""

_PERIOD_S = 300
_LONG_S = 900


def idle_hands(topology: Topology, deployment: Deployment) -> Iterator[Rule]:
    """Yield an alarm for each worker group; one for workers elsewhere if nothing here runs jobs."""
    for group in deployment.workers:
        specs = _most_urgent_first(group.selection.of(topology))
        yield _silent(group, specs) if group.min_tasks else _unanswered(group.name, specs)
    if not deployment.workers and not deployment.consumers:
        yield _unanswered(WORKERS, _most_urgent_first(topology.queues))


def set_aside(topology: Topology, *, fires: bool) -> Iterator[Rule]:
    """Yield the alarms of the quarantine, failed sweeps and, if ``fires``, failed firings."""
    yield _kept(
        "quarantine",
        topology.quarantine_name,
        means="A job killed its workers again and again, and is in quarantine.",
        causes="it runs out of memory, crashes an extension written in C, or calls os._exit.",
        first="'headgate dead-letters list --reason quarantined' names it; run it with "
        "isolation='process' and a memory_mib, or in a function with more memory, before you "
        "replay it.",
    )
    yield _kept(
        "failed-sweeps",
        topology.failed_sweeps_name,
        means="A sweep of the dead letters has failed. Until one succeeds, only these "
        "alarms report dead letters, and none is copied before SQS deletes it.",
        causes="SQS, S3 or DynamoDB refuses or can't be reached, or there is too much to look at.",
        first="read the sweep function's log. This ends an hour after the last failure.",
    )
    if fires:
        yield _kept(
            "failed-firings",
            topology.failed_firings_name,
            means="A schedule or an event could not submit its job, after all retries. Its input "
            f"is in {topology.failed_firings_name}.",
            causes="the bridge function fails or is throttled, or SQS refuses its message.",
            first="read the bridge function's log, mend what it names, then replay it.",
        )


def dead_letters(topology: Topology, most: int) -> Rule:
    """Return the alarm of dead letters in all queues together."""
    return Rule(
        name="dead-letters",
        kind="dead-letters",
        means=f"More than {most} messages are set aside in all queues of the app together.",
        causes="several types fail for one cause, or nobody looks after what fails now and then.",
        first="type 'headgate dead-letters count', and fix the most frequent cause first.",
        metrics={"kept": metrics.dead_letters(topology)},
        threshold=most,
        period_s=_LONG_S,
    )


def schedules(topology: Topology, percent: float) -> Rule:
    """Return the alarm of EventBridge Scheduler failing to invoke the bridge."""
    failed = f"{filled('errors')} + {filled('dropped')}"
    return Rule(
        name="schedules",
        kind="schedules",
        means=f"More than {percent:g} % of the app's schedules' invocations failed in 15 minutes. "
        "They are retried for a day.",
        causes="the bridge function is throttled or gone, or the schedules' role may not invoke "
        "it.",
        first="look at the bridge's throttles and the account's concurrency of Lambda.",
        metrics={
            "errors": metrics.of_schedules(topology, metrics.TARGET_ERRORS),
            "dropped": metrics.of_schedules(topology, metrics.DROPPED),
            "attempts": metrics.of_schedules(topology, metrics.ATTEMPTS),
        },
        expression=rate(failed, filled("attempts"), at_least=FAILURES),
        threshold=percent,
        period_s=_LONG_S,
    )


def bridge(function: str, percent: float) -> Rule:
    """Return the alarm of a failing bridge. Scheduler, which only hands over, doesn't notice."""
    return Rule(
        name="bridge",
        kind="bridge",
        means=f"More than {percent:g} % of the jobs of schedules and events could not be submitted "
        "in 15 minutes. Lambda tries each three times within minutes, and for six hours what it "
        "throttles.",
        causes="SQS or DynamoDB refuses or can't be reached, or an event lacks the fields that "
        "its rule names.",
        first="run the saved query 'what the bridge submitted', and read the function's errors.",
        metrics={
            "errors": metrics.of_function(function, "Errors"),
            "invocations": metrics.of_function(function, "Invocations"),
        },
        expression=rate(filled("errors"), filled("invocations"), at_least=FAILURES),
        threshold=percent,
        period_s=_LONG_S,
    )


def consumer(name: str, function: str) -> Rule:
    """Return the alarm of a consumer that fails as a whole; to Lambda a failed job is no error."""
    return _errors(
        f"{name}-errors",
        "errors",
        function,
        group=name,
        means=f"The consumer {name} failed {FAILURES} times or more in 15 minutes, and with it all "
        "jobs of these invocations. They stay in their queue, and are delivered again.",
    )


def sweep(function: str) -> Rule:
    """Return the alarm of a failing sweep."""
    return _errors(
        "sweep",
        "sweep",
        function,
        means=f"The sweep of the dead letters failed {FAILURES} times or more in 15 minutes. Until "
        "it succeeds, only these alarms report dead letters.",
    )


def demand(function: str) -> Rule:
    """Return the alarm of failing counts of the tasks that groups want."""
    return _errors(
        "demand",
        "demand",
        function,
        means="Counting the tasks that worker groups with many queues want failed "
        f"{FAILURES} times or more in 15 minutes. Until it succeeds, they grow only by the age of "
        "their jobs.",
    )


def _errors(name: str, kind: AlarmKind, function: str, *, means: str, group: str = APP) -> Rule:
    return Rule(
        name=name,
        kind=kind,
        group=group,
        means=means,
        causes="it can't be imported, runs out of memory or time, or its role lacks a permission.",
        first="read the function's log.",
        metrics={"errors": metrics.of_function(function, "Errors")},
        threshold=FAILURES,
        at=True,
        period_s=_LONG_S,
    )


def _silent(group: WorkerGroup, specs: Sequence[QueueSpec]) -> Rule:
    """Return the alarm of a group that neither polls nor holds messages.

    A worker whose slots are all taken doesn't poll, but holds its jobs. Messages in flight may also
    be waiting for a retry: then the alarms of the queues go off.
    """
    polled = _names(specs[:_POLLED])
    held = _names(specs[: MOST_METRICS - 2 * len(polled)])
    watched = {
        **numbered("received", polled, metrics.received),
        **numbered("empty", polled, metrics.empty_receives),
        **numbered("held", held, metrics.in_flight),
    }
    return Rule(
        name=f"{group.name}-silent",
        kind="silent",
        group=group.name,
        means=f"No worker of the group {group.name} has polled for 15 minutes, nor holds a job. "
        f"There should be at least {group.min_tasks}.",
        causes="the tasks can't start (image, permissions, network, capacity), or die at once; or "
        "all that they poll is paused.",
        first="see in 'headgate queues list' what is paused. If not all is, read the service's "
        "events in ECS and the last lines of its log; roll back a deploy.",
        metrics=watched,
        expression=f"IF({total(watched)} == 0, 1, 0)",
        threshold=1,
        at=True,
        period_s=_PERIOD_S,
        periods=3,
        points=3,
        silence_alarms=True,
    )


def _unanswered(name: str, specs: Sequence[QueueSpec]) -> Rule:
    """Return the alarm of waiting jobs that nobody receives. Nobody has to poll empty queues."""
    watched = _names(specs[: MOST_METRICS // 2])
    waiting = numbered("waiting", watched, partial(metrics.visible, statistic="Minimum"))
    received = numbered("received", watched, metrics.received)
    return Rule(
        name=f"{name}-silent",
        kind="silent",
        group=name,
        means=f"Jobs have waited for 15 minutes in the queues of {name}, and no worker received "
        "any.",
        causes="no worker runs, or its tasks can't start (image, permissions, network, capacity); "
        "or the queues are paused.",
        first="see in 'headgate queues list' what is paused. If not all is, start the workers, or "
        "read the service's events in ECS and the last lines of its log.",
        metrics=waiting | received,
        expression=f"IF({total(waiting)} > 0 AND {total(received)} == 0, 1, 0)",
        threshold=1,
        at=True,
        period_s=_PERIOD_S,
        periods=3,
        points=3,
    )


def _kept(
    name: Literal["quarantine", "failed-sweeps", "failed-firings"],
    queue: str,
    *,
    means: str,
    causes: str,
    first: str,
) -> Rule:
    return Rule(
        name=name,
        kind=name,
        means=means,
        causes=causes,
        first=first,
        metrics={"kept": metrics.visible(queue)},
        threshold=1,
        at=True,
        period_s=_PERIOD_S,
    )


def _most_urgent_first(specs: Sequence[QueueSpec]) -> Sequence[QueueSpec]:
    return sorted(specs, key=lambda spec: spec.priority.rank)


def _names(specs: Sequence[QueueSpec]) -> Sequence[str]:
    return [spec.name for spec in specs]
