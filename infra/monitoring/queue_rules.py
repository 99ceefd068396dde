"""The alarms of one queue: depth, age, late starts, failures and dead letters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta

from headgate.infra.monitoring import metrics
from headgate.infra.monitoring.maths import filled, highest, numbered, rate
from headgate.infra.monitoring.metrics import Series
from headgate.infra.monitoring.rule import Rule
from headgate.jobs.core.topology import QueueSpec, Topology
from headgate.jobs.deployment.alarms.thresholds import MAX_IN_FLIGHT, MOST_METRICS, Thresholds

FAILURES = 5
"""Minimum of failed runs in 15 minutes for a rate."""

_MINUTE_S = 60
_DAY_S = 86_400


def label(spec: QueueSpec) -> str:
    """Return the queue's label in alarms and graphs."""
    return f"{spec.group}-{spec.priority}"


def rules_of(
    topology: Topology, spec: QueueSpec, thresholds: Thresholds, *, critical: bool
) -> Iterator[Rule]:
    """Yield the alarms of one queue; ``critical`` if one dead letter is too many."""
    thresholds = thresholds.of(spec.group)
    by_tenant = thresholds.by_tenant and not spec.fifo  # SQS tells noisy groups in these alone
    yield _deep(spec, thresholds.depth)
    yield _old(spec, thresholds.oldest, by_tenant=by_tenant)
    yield _late(topology, spec, by_tenant=by_tenant)
    yield _failing(topology, spec, thresholds.failed_percent)
    yield _dead(spec, 1 if critical else thresholds.dead_letters, critical=critical)


def start_within_s(spec: QueueSpec) -> int:
    """Return the seconds to a job's start for an alarm: at least CloudWatch's minute."""
    return max(_MINUTE_S, math.ceil(spec.lane.start_within.total_seconds()))


def _deep(spec: QueueSpec, most: int) -> Rule:
    return Rule(
        name=f"{label(spec)}-depth",
        kind="depth",
        means=f"More than {most} jobs have been waiting in {spec.name} for five minutes.",
        causes="more is submitted than the workers can do, they are at their maximum of tasks, or "
        "what the jobs call is slow.",
        first="see on the dashboard whether jobs still complete. If so, raise its max_tasks; "
        "if not, read the failures.",
        metrics={"waiting": metrics.visible(spec.name, "Minimum")},
        threshold=most,
        period_s=5 * _MINUTE_S,
    )


def _old(spec: QueueSpec, oldest: timedelta, *, by_tenant: bool) -> Rule:
    """Return the alarm of a queue that is too old by SQS's metric, or by the queue's throughput.

    SQS's age leaves out messages received three times or more, which are just the stuck ones; and
    it includes messages that run or wait for a retry. So it counts here only while others wait, and
    the throughput complements it: by Little's law jobs wait longer than ``oldest`` when more of
    them wait than are deleted in that time.
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
    """
    oldest_s, period_s = math.ceil(oldest.total_seconds()), 5 * _MINUTE_S
    waiting = filled("waiting")
    stuck = f"{waiting} > {oldest_s / period_s:g} * {filled('deleted')}"
    return Rule(
        name=f"{label(spec)}-oldest",
        kind="oldest",
        means=f"Jobs in {spec.name} wait for more than {oldest_s / 60:g} minutes, or would at the "
        "current rate.",
        causes="no worker serves this queue, it is paused ('headgate queues list'), its jobs run "
        "long or are retried again and again, or a limit or an open breaker holds them back.",
        first="see on the dashboard whether the queue is received from and whether its jobs fail; "
        "the saved query 'retries' shows which.",
        metrics={
            "waiting": metrics.visible(spec.name, "Minimum"),
            "oldest": metrics.oldest_age(spec.name),
            "deleted": metrics.deleted(spec.name),
            **(_quiet(spec) if by_tenant else {}),
        },
        expression=_unless_noisy(
            f"IF({waiting} > 0 AND ({filled('oldest')} > {oldest_s} OR {stuck}), 1, 0)",
            oldest_s,
            by_tenant=by_tenant,
        ),
        threshold=1,
        at=True,
        period_s=period_s,
        periods=3,
        points=3,
    )


def _late(topology: Topology, spec: QueueSpec, *, by_tenant: bool) -> Rule:
    """Return the alarm of late starts, measured or, if nothing starts, by Little's law again."""
    target_s = start_within_s(spec)
    period_s = min(_DAY_S, _MINUTE_S * math.ceil(target_s / 3 / _MINUTE_S))
    waits = f"{filled('waiting')} > {target_s / period_s:g} * {filled('received')}"
    return Rule(
        name=f"{label(spec)}-late",
        kind="late",
        means=f"Jobs of {spec.name} start later than {target_s} s after they are due: one in a "
        "hundred of those that start, or all, since more wait than are received.",
        causes="the workers are busy, too few, or gone; a group that scales from 0 starts its "
        "first task; a limit or an open breaker holds jobs back; the queue is paused.",
        first="look at the workers' tasks and CPU on the dashboard; raise the group's min_tasks or "
        "max_tasks.",
        metrics={
            "wait": metrics.wait(topology, spec),
            "waiting": metrics.visible(spec.name, "Minimum"),
            "received": metrics.received(spec.name),
            **(_quiet(spec) if by_tenant else {}),
        },
        expression=_unless_noisy(
            f"IF({filled('wait')} > {target_s} OR {waits}, 1, 0)", target_s, by_tenant=by_tenant
        ),
        threshold=1,
        at=True,
        period_s=period_s,
        periods=5,
        points=3,
    )


def _quiet(spec: QueueSpec) -> dict[str, Series]:
    return {
        "noisy": metrics.noisy_tenants(spec.name),
        "quiet": metrics.oldest_age_of_quiet(spec.name),
    }


def _unless_noisy(expression: str, quiet_s: float, *, by_tenant: bool) -> str:
    """Return an expression that leaves out noisy tenants, while there are any.

    Then only the age of the oldest job of the others counts: the time of a start is not known by
    tenant, and the depth includes the noisy ones.
    """
    if not by_tenant:
        return expression
    late = f"IF({filled('quiet')} > {quiet_s:g}, 1, 0)"
    return f"IF({filled('noisy')} > 0, {late}, {expression})"


def _failing(topology: Topology, spec: QueueSpec, percent: float) -> Rule:
    failed, completed = filled("failed"), filled("completed")
    return Rule(
        name=f"{label(spec)}-failing",
        kind="failing",
        means=f"More than {percent:g} % of the runs of {spec.name}'s jobs failed in 15 minutes. "
        "They are retried until their attempts are used up.",
        causes="a deploy, or something that the jobs call is down or refuses them.",
        first="run the saved query 'failures by type and error'. If a deploy caused it, roll back.",
        metrics={
            "failed": metrics.failed(topology, spec),
            "completed": metrics.completed(topology, spec),
        },
        expression=rate(failed, f"{failed} + {completed}", at_least=FAILURES),
        threshold=percent,
        period_s=15 * _MINUTE_S,
    )


def _dead(spec: QueueSpec, most: int, *, critical: bool) -> Rule:
    which = "A job is" if critical else f"More than {most} jobs are"
    what = " Critical jobs go there." if critical else ""
    return Rule(
        name=f"{label(spec)}-dead",
        kind="critical-dead" if critical else "dead",
        means=f"{which} in {spec.dlq_name}, which keeps them for {spec.dlq_retention.days} days."
        f"{what}",
        causes="attempts that are used up, a payload that a handler refuses, or a type that no "
        "worker knows.",
        first="type 'headgate dead-letters count --by reason', and fix the cause before you "
        "replay.",
        metrics={"dead": metrics.visible(spec.dlq_name)},
        threshold=most,
        at=critical,
        # A period of a minute reacts sooner; and one of five is enough, since the sweep or a person
        # that looks at the dead letters hides them for a minute, which would count as recovery.
        period_s=(1 if critical else 5) * _MINUTE_S,
        periods=5 if critical else 1,
    )


def in_flight(specs: Sequence[QueueSpec], most: int) -> Iterator[Rule]:
    """Yield alarms of messages in flight, each for as many queues as one alarm can watch."""
    for first in range(0, len(specs), MOST_METRICS):
        part = specs[first : first + MOST_METRICS]
        each = numbered("q", (spec.name for spec in part), metrics.in_flight)
        yield Rule(
            kind="in-flight",
            name="in-flight" if first == 0 else f"in-flight-{first // MOST_METRICS + 1}",
            means=f"A queue has more than {most} jobs in flight. At {MAX_IN_FLIGHT} SQS gives out "
            "none, without an error: the queue then looks empty.",
            causes="very many waiting retries, or far too much concurrency.",
            first="see on the dashboard which queue it is, and whether its jobs fail.",
            metrics=each,
            expression=highest(each),
            threshold=most,
            period_s=5 * _MINUTE_S,
        )
