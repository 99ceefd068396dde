"""The Lambda function that sweeps the dead letters, every five minutes.

It holds none of the user's code: its schedule hands it the plan (`jobs.deployment.sweep_plan`).
What it does and in which order stands in `lambdas.sweep.sweeper`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.ports import BlockingObjectStore, BlockingReceiver, BlockingTable, Publisher
from headgate.jobs.core.topology import Bucket
from headgate.jobs.deployment.metric_names import DEAD_LETTERS, NAMESPACE, QUEUE, REASON, TYPE
from headgate.jobs.deployment.sweep_plan import read_plan
from headgate.jobs.errors import ConfigurationError
from headgate.lambdas.logs import log_as_json
from headgate.lambdas.sweep.memory import SweepMemory
from headgate.lambdas.sweep.sweeper import Kind, Sweeper

if TYPE_CHECKING:
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
    from aws_lambda_powertools.utilities.typing import LambdaContext

TABLE = "HEADGATE_TABLE"
"""The variable that names the app's table."""

BUCKET = "HEADGATE_BUCKET"
"""Its bucket, by its whole name."""

TOPIC = "HEADGATE_TOPIC"
"""The ARN of the topic on which people are told."""

_log = logging.getLogger("headgate.sweep")


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    """Sweep once, by the plan that ``event`` is.

    Returns:
        How many messages were ``looked_at``, and how many of them are ``new``, were ``saved``, and
        were ``told`` of; nothing, if another sweep is under way.

    Raises:
        MessageUnreadable: ``event`` is no plan.
        ConfigurationError: a variable is not set.
        TransportError: something could not be done; all else was.
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
    """Write how many dead letters are new, as lines of CloudWatch's embedded metric format; their
    names are those of `jobs.deployment.metric_names`."""
    from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
        AmazonCloudWatchEMFProvider,
    )

    for (queue, job_type, reason), count in counts.items():
        # One for each line: what it has counted and named is thus its own.
        emf = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, service=app)
        emf.add_dimension(QUEUE, queue)
        emf.add_dimension(TYPE, job_type)
        emf.add_dimension(REASON, reason)
        emf.add_metric(DEAD_LETTERS, "Count", count)
        print(json.dumps(emf.serialize_metric_set()))  # noqa: T201 - where CloudWatch reads it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aws:
    """What the function uses of AWS."""

    queues: BlockingReceiver
    table: BlockingTable
    store: BlockingObjectStore
    topic: Publisher


@cache
def _aws() -> _Aws:
    """One for the execution environment. Opened by the first sweep: imports stay quick."""
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
    """The log's formatter; one for the execution environment."""
    return log_as_json()


def _required(variable: str) -> str:
    if not (value := os.environ.get(variable)):
        raise ConfigurationError(f"{variable} is not set: deploy the sweep with JobSystem")
    return value
