"""Rules for deployments: queues without a server, unfit functions, alerts without a recipient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.jobs.core.limits import Limits
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.policies import timeout_of
from headgate.jobs.deployment.checks.places import is_endless, place_of
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups import GIVE_BACK, ConsumerGroup
from headgate.jobs.deployment.serving import consumed, serving
from headgate.jobs.errors import ConfigurationError, Fault, UnknownQueue


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


def timeout_above_functions(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A type that may run for longer than the function that runs it."""
    for group, job in _run_by_functions(app, deployment):
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
            what=f"it {runs}, and the function {group.name!r}, which runs it, ends after "
            f"{group.timeout}, of which the last {GIVE_BACK} are for giving jobs back",
            why="A job that needs longer is interrupted and starts again, each time",
            instead=f"Declare timeout=timedelta(...) of at most {group.longest_job} on the type, "
            "raise the consumer's timeout, or let workers serve its queue",
            severity="error" if declared else "warning",
        )


def visibility_below_advice(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A queue that shows its messages again before Lambda has tried a throttled batch again."""
    for group in deployment.consumers:
        for spec in _queues_of(app, group):
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
    """A type with ``alert_at_once`` in a deployment that names nobody to alert."""
    if deployment.alerts_to:
        return
    for job in app.types.values():
        if job.alert_at_once:
            yield Fault(
                rule="nobody-is-told",
                where=place_of(job),
                what="it has alert_at_once, and the deployment's alerts_to is empty",
                why="Its dead letters are reported to a topic without subscribers",
                instead='Write "alerts_to": ["oncall@example.com"] in the deployment, or subscribe '
                "something else to JobSystem.alerts",
                severity="warning",
            )


def limits_not_in_functions(app: App, deployment: Deployment) -> Iterator[Fault]:
    """Limits on a type that a function runs, where they are not applied."""
    for group, job in _run_by_functions(app, deployment):
        for owner, limits in (
            (place_of(job), job.limits),
            (f"queue {job.queue}", app.queues[job.queue].limits),
            (f"app {app.name}", app.limits),
        ):
            if limits != Limits():
                yield Fault(
                    rule="limits-not-in-functions",
                    where=place_of(job),
                    what=f"the function {group.name!r} runs it, and {owner} has limits",
                    why="Workers apply limits and breakers; in a function only its concurrency is "
                    "limited",
                    instead="Let workers serve its queue, or set max_concurrency= of the "
                    "consumer and drop the limits",
                    severity="warning",
                )


def _run_by_functions(
    app: App, deployment: Deployment
) -> Iterator[tuple[ConsumerGroup, JobType[Any, Any]]]:
    """Yield each job type that a function runs, with that function's group."""
    for group in deployment.consumers:
        specs = _queues_of(app, group)
        for job in app.types.values():
            own = app.topology.queue(job.queue, job.priority)
            if any(spec == own or spec.group in job.runs_from[1:] for spec in specs):
                yield group, job


def _queues_of(app: App, group: ConsumerGroup) -> tuple[QueueSpec, ...]:
    try:
        return group.selection.of(app.topology)
    except (ConfigurationError, UnknownQueue):
        return ()  # `deployment_unfit` reports it
