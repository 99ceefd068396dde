"""The surroundings of clients, workers and functions: AWS's services, the time, and chance.

`jobs.aws.backend` has those of a real deployment, `jobs.testing.backend` those in memory.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.keys.key_ring import KeyRing
from headgate.jobs.core.ports.object_store import AsyncObjectStore, ObjectStore
from headgate.jobs.core.ports.scheduler import AsyncScheduler, Scheduler
from headgate.jobs.core.ports.table import AsyncTable, Table
from headgate.jobs.core.ports.transport import AsyncTransport, Transport
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import light_dataclass

if TYPE_CHECKING:
    from headgate.jobs.core.batcher import Pacing


class AsyncSecretStore(Protocol):
    """AWS Secrets Manager, for an event loop. It may raise a `TransportError`."""

    async def versions(self, name: str) -> Sequence[bytes]:
        """Return a secret's current value and, if there is one, the previous, in this order.

        ``name`` may be its ARN.
        """
        ...


class SecretStore(Protocol):
    """`AsyncSecretStore` for synchronous code, from any thread."""

    def versions(self, name: str) -> Sequence[bytes]: ...


@light_dataclass(frozen=True, slots=True, kw_only=True)
class MetricQuery:
    """A question for a metric of a queue, period by period: one of SQS's unless it says so."""

    queue: str
    """The physical name of the queue."""
    name: str
    """The metric's name, as in ``NumberOfMessagesSent``."""
    statistic: Literal["Sum", "Maximum"]
    period_s: int = 60
    """Seconds that each value stands for. CloudWatch has minutes for 15 days, and hours for 455."""
    namespace: str = "AWS/SQS"
    dimensions: tuple[tuple[str, str], ...] = ()
    """Names and values of the metric's dimensions; empty for those of SQS, which has the queue."""
    account: str | None = None
    """The account that has the metric; None for the caller's own."""


class AsyncMetricReader(Protocol):
    """The part of CloudWatch that is read. Its method may raise a `TransportError`."""

    async def read(
        self, queries: Sequence[MetricQuery], *, since: datetime, until: datetime
    ) -> Mapping[MetricQuery, Mapping[datetime, float]]:
        """Return the values of each metric that has any by the begin of their periods, in order."""
        ...


class MetricReader(Protocol):
    """`AsyncMetricReader`, for synchronous code."""

    def read(
        self, queries: Sequence[MetricQuery], *, since: datetime, until: datetime
    ) -> Mapping[MetricQuery, Mapping[datetime, float]]: ...


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The surroundings of synchronous code."""

    transport: Transport
    table: Table
    scheduler: Scheduler
    store: ObjectStore
    keys: KeyRing
    """Data keys; over a key service that never suspends."""
    metrics: MetricReader
    secrets: SecretStore
    clock: Clock
    sleep: Callable[[float], None]
    rng: random.Random
    """Spreads pauses."""
    look_wait_s: float = 1.0
    """Seconds that a look into a queue waits for a message. Only a receive that waits asks all of
    SQS's servers; on a clock of a test's own, which waits for nobody, 0.
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-short-and-long-polling.html"""
    unworked_wait_s: float | None = None
    """Seconds after which a wait without a timeout is given up, where no worker may ever run the
    job, as in a test; None waits for ever."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class AsyncPorts:
    """The surroundings of code in an event loop."""

    transport: AsyncTransport
    table: AsyncTable
    scheduler: AsyncScheduler
    store: AsyncObjectStore
    keys: KeyRing
    """Data keys."""
    metrics: AsyncMetricReader
    secrets: AsyncSecretStore
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]
    rng: random.Random
    """Spreads pauses."""
    pacing: Pacing
    """The batching of a client's submissions."""
    look_wait_s: float = 1.0
    """As in `Ports`."""
    unworked_wait_s: float | None = None
    """As in `Ports`."""


class Backend(Protocol):
    """Gives synchronous code its surroundings."""

    @property
    def ports(self) -> Ports: ...


class AsyncBackend(Protocol):
    """Gives code in an event loop its surroundings."""

    @property
    def async_ports(self) -> AsyncPorts: ...


def check_alone(backend: object, session: object, config: object) -> None:
    """Check that a backend is not given together with settings for AWS.

    Raises:
        ConfigurationError: it is.
    """
    if backend is not None and (session is not None or config is not None):
        raise ConfigurationError(
            "backend= stands in for AWS, to which session= and config= connect: leave these out"
        )
