"""The Lambda function that sweeps the dead letters, every five minutes.

It contains none of the user's code: its schedule passes it the plan (`jobs.deployment.sweep_plan`).
The steps of a sweep, and their order, are in `lambdas.sweep.sweeper`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.ports.object_store import ObjectStore
from headgate.jobs.core.ports.table import Table
from headgate.jobs.core.ports.transport import Receiver
from headgate.jobs.core.topology import Bucket
from headgate.jobs.deployment.metric_lines import metric_line
from headgate.jobs.deployment.metric_names import DEAD_LETTERS, QUEUE, REASON, TYPE
from headgate.jobs.deployment.sweep_plan import read_plan
from headgate.jobs.errors import ConfigurationError
from headgate.lambdas.logs import log_as_json
from headgate.lambdas.sweep.memory import SweepMemory
from headgate.lambdas.sweep.publisher import Publisher
from headgate.lambdas.sweep.sweeper import Kind, Sweeper

if TYPE_CHECKING:
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
    from aws_lambda_powertools.utilities.typing import LambdaContext

TABLE = "HEADGATE_TABLE"
"""Environment variable with the name of the app's table."""

BUCKET = "HEADGATE_BUCKET"
"""Environment variable with the full name of the app's bucket."""

TOPIC = "HEADGATE_TOPIC"
"""Environment variable with the ARN of the topic for alerts."""

_log = logging.getLogger("headgate.sweep")


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    """Sweep once, by the plan in ``event``.

    Returns:
        The number of messages ``looked_at``, and the numbers of them that are ``new``, were
        ``saved``, and were ``told`` of; nothing if another sweep is under way.

    Raises:
        MessageUnreadable: ``event`` is not a plan.
        ConfigurationError: a variable is not set.
        TransportError: a step failed; all others were carried out.
    """
    if (lines := _lines()) is not None:
        lines.append_keys(function_request_id=context.aws_request_id)
    plan, aws, clock = read_plan(event), _aws(), SystemClock()
    sweeper = Sweeper(
        plan,
        queues=aws.queues,
        memory=SweepMemory(aws.table, clock),
        store=aws.store,
        topic=aws.topic,
        clock=clock,
        count=partial(write_counts, plan.app),
    )
    swept = sweeper.sweep()
    if swept is None:
        _log.warning("another sweep is under way: this one leaves it alone")
        return {}
    done = {
        "looked_at": swept.looked_at,
        "new": swept.new.total(),
        "saved": swept.saved,
        "told": swept.told,
    }
    _log.info("swept", extra=done)
    return done


def write_counts(app: str, counts: Mapping[Kind, int]) -> None:
    """Write the numbers of new dead letters, as lines of CloudWatch's embedded metric format; their
    names are those of `jobs.deployment.metric_names`."""
    for (queue, job_type, reason), count in counts.items():
        dimensions = ((QUEUE, queue), (TYPE, job_type), (REASON, reason))
        print(metric_line(app, dimensions, {DEAD_LETTERS: count}))  # noqa: T201 - where CloudWatch reads it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aws:
    """The AWS services that the function uses."""

    queues: Receiver
    table: Table
    store: ObjectStore
    topic: Publisher


@cache
def _aws() -> _Aws:
    """Return the execution environment's services, opened on first use to keep imports fast."""
    from headgate.jobs.aws.dynamo.table import DynamoTable
    from headgate.jobs.aws.s3 import S3Store
    from headgate.jobs.aws.sns import SnsPublisher
    from headgate.jobs.aws.sqs.transport import SqsTransport

    bucket = _required(BUCKET)
    return _Aws(
        queues=SqsTransport(),
        table=DynamoTable(_required(TABLE)),
        store=S3Store(Bucket(prefix=bucket, name=bucket)),
        topic=SnsPublisher(_required(TOPIC)),
    )


@cache
def _lines() -> LambdaPowertoolsFormatter | None:
    """Return the log's formatter, one for the execution environment."""
    return log_as_json()


def _required(variable: str) -> str:
    if not (value := os.environ.get(variable)):
        raise ConfigurationError(f"{variable} is not set: deploy the sweep with JobSystem")
    return value
