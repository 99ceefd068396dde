"""The Lambda function that turns a schedule's firing, or an event, into a job.

It holds none of the user's code: all it needs is in the schedule's input (`jobs.firing`), or in
what the event's rule makes of it (`jobs.eventing`). EventBridge invokes it asynchronously, so when
it raises, Lambda invokes it again, twice, and then keeps the input in the dead-letter queue of
schedules and events. Each invocation submits the same id, and what one has sent another doesn't
send again (`lambdas.sending`).

https://docs.aws.amazon.com/lambda/latest/dg/with-eventbridge-scheduler.html
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger

from jobs.batching import EntryRejected
from jobs.delays import is_delayed, read_delayed, send_delayed
from jobs.eventing import Occurrence, is_occurrence, read_occurrence
from jobs.firing import Firing, read_firing
from jobs.ports import BlockingTransport
from lambdas.sending import SentOnce

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


TABLE = "HEADGATE_TABLE"
"""The variable that names the app's table."""


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, str]:
    """Submit the job that ``event``, what a schedule or a rule hands over, describes.

    Returns:
        Its ``job_id``.

    Raises:
        MessageUnreadable: ``event`` is neither; names the fields.
        TransportError: SQS could not be asked, or refused.
    """
    if is_delayed(event):
        return _submit_delayed(event, context)
    due = read_occurrence(event) if is_occurrence(event) else read_firing(event)
    job_id = submit_firing(due, _transport(), datetime.now(UTC))
    extra = _of_event(due) if isinstance(due, Occurrence) else _of_schedule(due)
    request = {"job_id": job_id, "function_request_id": context.aws_request_id}
    _logger().info("job submitted", extra=request | extra)
    return {"job_id": job_id}


def submit_firing(due: Firing | Occurrence, transport: BlockingTransport, now: datetime) -> str:
    """Submit the job of a firing or an event; when this returns its id, SQS has it.

    Raises:
        TransportError: SQS could not be asked, or refused.
    """
    for failure in transport.send(due.queue_name, [due.message(now)]):
        raise EntryRejected(failure)
    return str(due.job_id)


def _of_schedule(firing: Firing) -> dict[str, Any]:
    return {
        "job_type": firing.type,
        "schedule": firing.schedule,
        "scheduled_time": firing.scheduled_time.isoformat(),
        "scheduler_execution_id": firing.execution_id,
        "scheduler_attempt": firing.attempt_number,
    }


def _of_event(occurrence: Occurrence) -> dict[str, Any]:
    return {
        "job_type": occurrence.job.type,
        "event_rule": occurrence.job.rule,
        "event_id": occurrence.event.id,
        "event_time": occurrence.event.time.isoformat(),
    }


def _submit_delayed(event: dict[str, Any], context: LambdaContext) -> dict[str, str]:
    job = read_delayed(event)
    send_delayed(job, _transport(), datetime.now(UTC))
    _logger().info(
        "delayed job sent",
        extra={
            "job_id": job.job_id,
            "job_type": job.type,
            "delayed_until": job.delayed_until.isoformat(),
            "function_request_id": context.aws_request_id,
        },
    )
    return {"job_id": job.job_id}


@cache
def _transport() -> BlockingTransport:
    """One for the execution environment. Opened by the first firing: imports stay quick."""
    from jobs.aws.sqs import SyncSqs

    if not (table := os.environ.get(TABLE)):
        return SyncSqs()
    from jobs.aws.sync_dynamo import SyncDynamoTable

    return SentOnce(SyncSqs(), SyncDynamoTable(table), lambda: datetime.now(UTC))


@cache
def _logger() -> Logger:
    """Named by ``POWERTOOLS_SERVICE_NAME``."""
    return Logger()
