"""The Lambda function that sweeps the dead letters, every five minutes.

It contains none of the user's code: its schedule passes it the plan (`jobs.deployment.sweep_plan`).
The steps of a sweep, and their order, are in `lambdas.sweep.sweeper`.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from headgate.jobs.core.backend import SecretStore
from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.core.concurrency import Threads
from headgate.jobs.core.event_log import log_event
from headgate.jobs.core.events import Events
from headgate.jobs.core.immediate import (
    ImmediateObjectStore,
    ImmediateSecretStore,
    ImmediateTable,
    ImmediateTransport,
    immediate,
)
from headgate.jobs.core.naming import Bucket
from headgate.jobs.core.ports.object_store import ObjectStore
from headgate.jobs.core.ports.table import Table
from headgate.jobs.core.ports.transport import Transport
from headgate.jobs.dead_letters.policy_replay import PolicyReplay
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.deployment.metric_lines import metric_line
from headgate.jobs.deployment.metric_names import (
    DEAD_LETTERS,
    LETTERS_KEPT,
    LETTERS_REPLAYED,
    QUEUE,
    REASON,
    TYPE,
)
from headgate.jobs.deployment.replay_plan import ReplayPlan, outline_of
from headgate.jobs.deployment.sweep_plan import HOLD, read_plan
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog
from headgate.lambdas.logs import log_as_json
from headgate.lambdas.sweep.memory import SweepMemory
from headgate.lambdas.sweep.publisher import Publisher
from headgate.lambdas.sweep.sweeper import Kind, Sweeper, Swept

if TYPE_CHECKING:
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
    from aws_lambda_powertools.utilities.typing import LambdaContext

TABLE = "HEADGATE_TABLE"
"""Environment variable with the name of the app's table."""

BUCKET = "HEADGATE_BUCKET"
"""Environment variable with the full name of the app's bucket."""

TOPIC, TICKETS = "HEADGATE_TOPIC", "HEADGATE_TICKETS"
"""Environment variables with the ARNs of the topics for critical dead letters and for summaries."""

SECRET = "HEADGATE_SIGNING_SECRET"  # noqa: S105 - the name of a variable
"""Environment variable with the secret that has the key, if the app's messages are signed and it
has policies."""

_log = OwnLog("headgate.sweep")


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    """Sweep once, by the plan in ``event``.

    Returns:
        The number of messages ``looked_at``, and the numbers of them that are ``new``, were
        ``saved``, were ``told`` of, and, if the app has policies, were ``replayed``; nothing if
        another sweep is under way.

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
        tickets=aws.tickets,
        clock=clock,
        count=partial(write_counts, plan.app),
        ended=partial(write_sums, plan.app),
        replay=_replay(plan.replay, aws, clock) if plan.replay else None,
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
    if plan.replay is not None:
        done["replayed"] = swept.replayed.total()
    _log.info("swept", extra=done)
    return done


def write_counts(app: str, counts: Mapping[Kind, int]) -> None:
    """Write the numbers of new dead letters, as lines of CloudWatch's embedded metric format; their
    names are those of `jobs.deployment.metric_names`."""
    for (queue, job_type, reason), count in counts.items():
        dimensions = ((QUEUE, queue), (TYPE, job_type), (REASON, reason))
        print(metric_line(app, dimensions, {DEAD_LETTERS: count}))  # noqa: T201 - where CloudWatch reads it


def write_sums(app: str, swept: Swept) -> None:
    """Write the numbers of dead letters that were sent back, and that are kept, as `write_counts`
    does.

    While a queue can't be looked through, those kept are at least the others; if that is none, it
    says nothing, and no number is written.
    """
    for (queue, job_type), count in swept.replayed.items():
        dimensions = ((QUEUE, queue), (TYPE, job_type))
        print(metric_line(app, dimensions, {LETTERS_REPLAYED: count}))  # noqa: T201 - as above
    if swept.kept or not swept.missed:
        print(metric_line(app, (), {LETTERS_KEPT: swept.kept}))  # noqa: T201 - as above


def _replay(plan: ReplayPlan, aws: _Aws, clock: Clock) -> PolicyReplay:
    events = Events(log_event)
    keyring = None
    if secret := os.environ.get(SECRET):
        keyring = Keyring(
            ImmediateSecretStore(aws.secrets),
            secret,
            concurrency=Threads(),
            clock=clock,
            events=events,
        )
    services = ReplayServices(
        app=outline_of(plan),
        transport=ImmediateTransport(aws.queues),
        table=ImmediateTable(aws.table),
        store=ImmediateObjectStore(aws.store),
        clock=clock,
        sleep=immediate(time.sleep),
        rng=random.Random(),  # noqa: S311 - spreads tries, keeps no secret
        concurrency=Threads(),
        look_wait_s=1.0,
        seals=None,  # what is sealed stays so
        keyring=keyring,
    )
    return PolicyReplay(plan, services, hold=HOLD)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Aws:
    """The AWS services that the function uses."""

    queues: Transport
    table: Table
    store: ObjectStore
    topic: Publisher
    tickets: Publisher
    secrets: SecretStore


@cache
def _aws() -> _Aws:
    """Return the execution environment's services, opened on first use to keep imports fast."""
    from headgate.jobs.aws.connections.connection import SharedSession
    from headgate.jobs.aws.dynamo.table import DynamoTable
    from headgate.jobs.aws.s3 import S3Store
    from headgate.jobs.aws.secrets import SecretsManager
    from headgate.jobs.aws.sns import SnsPublisher
    from headgate.jobs.aws.sqs.transport import SqsTransport

    bucket, shared = _required(BUCKET), SharedSession()
    return _Aws(
        queues=SqsTransport(shared=shared),
        table=DynamoTable(_required(TABLE), shared=shared),
        store=S3Store(Bucket(prefix=bucket, name=bucket), shared=shared),
        topic=SnsPublisher(_required(TOPIC), shared=shared),
        tickets=SnsPublisher(_required(TICKETS), shared=shared),
        secrets=SecretsManager(shared=shared),
    )


@cache
def _lines() -> LambdaPowertoolsFormatter | None:
    """Return the log's formatter, one for the execution environment."""
    return log_as_json()


def _required(variable: str) -> str:
    if not (value := os.environ.get(variable)):
        raise ConfigurationError(f"{variable} is not set: deploy the sweep with JobSystem")
    return value
