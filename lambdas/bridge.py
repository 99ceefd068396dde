"""The Lambda function that turns a schedule's firing, or an event, into a job.

It contains none of the user's code: all it needs is in the schedule's input
(`jobs.schedules.firing`, `jobs.schedules.delayed_job`), or in the input that the event's rule
produces (`jobs.definitions.event_rules.event_rule`). EventBridge invokes it asynchronously, so when
it raises, Lambda invokes it twice more, and then keeps the input in the dead-letter queue of
schedules and events. A job that one invocation has sent is not sent again by another
(`jobs.schedules.bridging`).

https://docs.aws.amazon.com/lambda/latest/dg/with-eventbridge-scheduler.html
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, assert_never

from aws_lambda_powertools import Logger

from headgate.jobs.definitions.event_rules.event_rule import Occurrence
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.delayed_job import DelayedJob
from headgate.jobs.schedules.firing import Firing
from headgate.jobs.schedules.inputs import Input, read_input

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


TABLE = "HEADGATE_TABLE"
"""Environment variable with the name of the app's table."""

_ALREADY_SENT = "already sent"
_NOT_COUNTED = "fired before the schedule's start, or between the times of its rate"


def handler(event: object, context: LambdaContext) -> dict[str, str]:
    """Submit the job described by ``event``, the input from a schedule or an event rule.

    Returns:
        Its ``job_id``; nothing for a schedule that fires before its start.

    Raises:
        MessageUnreadable: ``event`` is neither; names the fields. Lambda keeps it in the queue of
            failed schedules and events.
        TransportError: SQS could not be reached, or refused.
    """
    given = read_input(event)
    said, origin = _described(given)
    if not given.counts:
        _logger().debug(_NOT_COUNTED, extra=origin)
        return {}
    sent = _bridge().submit(given)
    job_id = str(given.job_id)
    request = {"job_id": job_id, "function_request_id": context.aws_request_id}
    _logger().info(said if sent else _ALREADY_SENT, extra=request | origin)
    return {"job_id": job_id}


def _described(given: Input) -> tuple[str, dict[str, Any]]:
    """Return the log's message, and its fields that tell where the job comes from."""
    match given:
        case Firing():
            return "job submitted", {
                "job_type": given.type,
                "schedule": given.schedule,
                "scheduled_time": given.scheduled_time.isoformat(),
                "scheduler_execution_id": given.execution_id,
                "scheduler_attempt": given.attempt_number,
            }
        case Occurrence():
            return "job submitted", {
                "job_type": given.job.type,
                "event_rule": given.job.rule,
                "event_id": given.event.id,
                "event_time": given.event.time.isoformat(),
            }
        case DelayedJob():
            return "delayed job sent", {
                "job_type": given.type,
                "delayed_until": given.delayed_until.isoformat(),
            }
        case _:
            assert_never(given)


@cache
def _bridge() -> Bridge:
    """Return the execution environment's bridge, opened on first use to keep imports fast."""
    from headgate.jobs.aws.sqs.transport import SqsTransport

    transport, table = SqsTransport(), None
    if name := os.environ.get(TABLE):
        from headgate.jobs.aws.dynamo.table import DynamoTable

        table = DynamoTable(name)
    return Bridge(transport, table, lambda: datetime.now(UTC))


@cache
def _logger() -> Logger:
    """Return the logger, which is named by ``POWERTOOLS_SERVICE_NAME``."""
    return Logger()
