"""The Lambda function that publishes how many tasks worker groups need, every minute.

It serves groups with more queues than one alarm can watch. It contains none of the user's code: its
schedule passes it the plan (`jobs.deployment.scaling.demand_plan`). A group whose queues could not
all be counted gets no value in that minute, and its service stays as it is.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from headgate.jobs.core.ports.transport import QueueDepth, Receiver
from headgate.jobs.deployment.metric_lines import metric_line
from headgate.jobs.deployment.metric_names import GROUP, TASKS_BUSY, TASKS_WANTED
from headgate.jobs.deployment.scaling.backlog import QueueLoad, tasks_busy, tasks_wanted
from headgate.jobs.deployment.scaling.demand_plan import (
    WatchedGroup,
    WatchedQueue,
    read_demand_plan,
)
from headgate.jobs.errors import TransportError
from headgate.jobs.values.own_log import OwnLog
from headgate.lambdas.logs import log_as_json

if TYPE_CHECKING:
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
    from aws_lambda_powertools.utilities.typing import LambdaContext

_log = OwnLog("headgate.demand")


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, dict[str, float]]:
    """Count once, by the plan in ``event``.

    Returns:
        The metrics of each group, by its name.

    Raises:
        MessageUnreadable: ``event`` is not a plan.
        TransportError: a queue could not be counted; all other groups were.
    """
    if (lines := _lines()) is not None:
        lines.append_keys(function_request_id=context.aws_request_id)
    plan, queues = read_demand_plan(event), _queues()
    published: dict[str, dict[str, float]] = {}
    failed: TransportError | None = None
    for group in plan.groups:
        try:
            published[group.name] = _counted(group, queues)
        except TransportError as error:
            _log.error("the queues of the group %s can't be counted: %s", group.name, error)
            failed = error
        else:
            print(metric_line(plan.app, ((GROUP, group.name),), published[group.name]))  # noqa: T201 - where CloudWatch reads it
    if failed is not None:
        raise failed
    return published


def _counted(group: WatchedGroup, queues: Receiver) -> dict[str, float]:
    """Return a group's metrics, by name."""
    backlogs = [_load_of(queue, queues.depth(queue.name)) for queue in group.queues]
    return {
        TASKS_WANTED: tasks_wanted(backlogs),
        TASKS_BUSY: tasks_busy(backlogs, slots=group.slots, sleeps=group.sleeps),
    }


def _load_of(queue: WatchedQueue, depth: QueueDepth) -> QueueLoad:
    return QueueLoad(waiting=depth.visible, in_flight=depth.in_flight, per_task=queue.per_task)


@cache
def _queues() -> Receiver:
    """Return the queue service, opened on first use to keep imports fast."""
    from headgate.jobs.aws.sqs.transport import SqsTransport

    return SqsTransport()


@cache
def _lines() -> LambdaPowertoolsFormatter | None:
    """Return the log's formatter, one for the execution environment."""
    return log_as_json()
