"""The Lambda function that turns a schedule's firing, or an event, into a job.

It contains none of the user's code: all it needs is in the schedule's input
(`jobs.schedules.firing`, `jobs.schedules.delayed_job`), or in the input that the event's rule
produces (`jobs.definitions.event_rules.event_rule`); and in the routes that it is deployed with, by
which it sends a job only to a queue that the job's type runs from (`jobs.schedules.routes`).
EventBridge invokes it asynchronously, so when it raises, Lambda invokes it twice more, and then
keeps the input in the dead-letter queue of schedules and events. A job that one invocation has sent
is not sent again by another, but for the cases that `jobs.schedules.bridging` names.

https://docs.aws.amazon.com/lambda/latest/dg/with-eventbridge-scheduler.html
"""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.concurrency import Threads
from headgate.jobs.core.events import Event, Events
from headgate.jobs.core.immediate import ImmediateSecretStore
from headgate.jobs.definitions.event_rules.event_rule import Occurrence
from headgate.jobs.errors import LibraryMissing
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.delayed_job import DelayedJob
from headgate.jobs.schedules.firing import Firing
from headgate.jobs.schedules.inputs import Input, read_input
from headgate.jobs.schedules.routes import FILE, Routes

try:
    from aws_lambda_powertools import Logger
except ImportError as error:
    raise LibraryMissing(
        "headgate.lambdas.bridge", "aws-lambda-powertools", "headgate[lambda]"
    ) from error

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from headgate.jobs.aws.connections.connection import SharedSession


TABLE = "HEADGATE_TABLE"
"""Environment variable with the name of the app's table."""

SECRET = "HEADGATE_SIGNING_SECRET"  # noqa: S105 - the name of a variable
"""Environment variable with the secret that has the key, if the app's messages are signed."""

_ROUTES = Path(__file__).with_name(FILE)

_ALREADY_SENT = "already sent"
_NOT_COUNTED = "fired before the schedule's start, or between the times of its rate"


def handler(event: object, context: LambdaContext) -> dict[str, str]:
    """Submit the job described by ``event``, the input from a schedule or an event rule.

    Returns:
        Its ``job_id``; nothing for a schedule that fires before its start.

    Raises:
        MessageUnreadable: ``event`` is neither; names the fields. Lambda keeps it in the queue of
            failed schedules and events; likewise what is refused below.
        MessageTypeUnknown: the deployed app has no such type.
        MessageQueueWrong: the type doesn't run from the queue.
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
    from headgate.jobs.aws.connections.connection import SharedSession
    from headgate.jobs.aws.sqs.transport import SqsTransport

    shared = SharedSession()
    transport, table, events = SqsTransport(shared=shared), None, Events(_log_event)
    if name := os.environ.get(TABLE):
        from headgate.jobs.aws.dynamo.table import DynamoTable

        table = DynamoTable(name, shared=shared)
    routes = Routes.from_text(_ROUTES.read_bytes())
    return Bridge(
        transport,
        table,
        lambda: datetime.now(UTC),
        routes=routes,
        events=events,
        keyring=_keyring(secret, shared, events) if (secret := os.environ.get(SECRET)) else None,
    )


def _keyring(secret: str, shared: SharedSession, events: Events) -> Keyring:
    """Return the keys that sign what schedules and events submit."""
    from headgate.jobs.aws.secrets import SecretsManager

    store = ImmediateSecretStore(SecretsManager(shared=shared))
    return Keyring(store, secret, concurrency=Threads(), clock=SystemClock(), events=events)


def _log_event(event: Event) -> None:
    _logger().error(event.name, extra=asdict(event) | {"at": event.at.isoformat()})


@cache
def _logger() -> Logger:
    """Return the logger, which is named by ``POWERTOOLS_SERVICE_NAME``."""
    return Logger()
