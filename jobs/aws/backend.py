"""AWS as the backend of clients, workers and functions; see `jobs.core.backend`.

Nothing is opened before it is used, so who only submits small payloads needs no permission besides
``sqs:SendMessage``, and has no connection but those to SQS.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Self, Unpack

from headgate.jobs.aws.cloudwatch import AsyncCloudWatchMetrics, CloudWatchMetrics
from headgate.jobs.aws.connections.connection import Access, SharedSession
from headgate.jobs.aws.dynamo.table import AsyncDynamoTable, DynamoTable
from headgate.jobs.aws.kms import AsyncKmsKeys, KmsKeys
from headgate.jobs.aws.s3 import AsyncS3Store, S3Store
from headgate.jobs.aws.scheduler import AsyncEventBridgeScheduler, EventBridgeScheduler
from headgate.jobs.aws.secrets import AsyncSecretsManager, SecretsManager
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport, Observer, SqsTransport
from headgate.jobs.core.backend import AsyncPorts, Ports
from headgate.jobs.core.batcher import Pacing
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.immediate import ImmediateKeys, ImmediateLock
from headgate.jobs.core.keys.key_ring import KeyRing
from headgate.jobs.core.topology import Topology
from headgate.jobs.errors import ConfigurationError


class AwsBackend:
    """AWS for synchronous code, on boto3: a `jobs.core.backend.Backend`. Close it.

    Args:
        topology: names the app's table and bucket.
        on_request: called with every request to SQS.
        access: as in `jobs.aws.connections.connection.Connection`, with a `boto3.Session`.

    Raises:
        ConfigurationError: the session or the settings are something else.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        on_request: Observer | None = None,
        **access: Unpack[Access],
    ) -> None:
        _check(access, "client", "Client takes a boto3.Session")
        access["shared"] = SharedSession()
        self._sqs = SqsTransport(on_request=on_request, **access)
        self._table = DynamoTable(topology.table_name, **access)
        self._scheduler = EventBridgeScheduler(**access)
        self._store = S3Store(topology.bucket, **access)
        self._keys = KmsKeys(**access)
        self._metrics = CloudWatchMetrics(**access)
        clock = SystemClock()
        self._secrets = SecretsManager(**access)
        self._all = (
            *(self._sqs, self._table, self._scheduler),
            *(self._store, self._keys, self._secrets, self._metrics),
        )
        self.ports = Ports(
            transport=self._sqs,
            table=self._table,
            scheduler=self._scheduler,
            store=self._store,
            keys=KeyRing(ImmediateKeys(self._keys), lock=ImmediateLock, clock=clock),
            metrics=self._metrics,
            secrets=self._secrets,
            clock=clock,
            sleep=time.sleep,
            rng=random.Random(),  # noqa: S311 - spreads pauses, guards no secret
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Idempotent; a later call opens them again."""
        for each in self._all:
            each.close()


class AsyncAwsBackend:
    """AWS for an event loop, on aiobotocore: a `jobs.core.backend.AsyncBackend`.

    Use it with ``async with``, or `start` and `close`.

    Args:
        topology: names the app's table and bucket.
        on_request: called with every request to SQS.
        account: the account that owns the app; None asks STS for it when a schedule needs it.
        connections: maximum number of polls under way, and separately of other requests to SQS.
        access: as in `jobs.aws.connections.connection.Connection`, with an
            `aiobotocore.session.AioSession`. With a ``config`` aiobotocore makes all calls.

    Raises:
        ConfigurationError: the session or the settings are something else.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        on_request: Observer | None = None,
        account: str | None = None,
        connections: int = 50,
        **access: Unpack[Access],
    ) -> None:
        _check(access, "create_client", "AsyncClient and consumer take an aiobotocore session")
        self._sqs = AsyncSqsTransport(
            on_request=on_request, max_pool_connections=connections, **access
        )
        self._table = AsyncDynamoTable(topology.table_name, **access)
        self._scheduler = AsyncEventBridgeScheduler(account=account, **access)
        self._store = AsyncS3Store(topology.bucket, **access)
        self._keys = AsyncKmsKeys(**access)
        self._metrics = AsyncCloudWatchMetrics(**access)
        clock = SystemClock()
        self._secrets = AsyncSecretsManager(**access)
        self._all = (
            *(self._sqs, self._table, self._scheduler),
            *(self._store, self._keys, self._secrets, self._metrics),
        )
        self.async_ports = AsyncPorts(
            transport=self._sqs,
            table=self._table,
            scheduler=self._scheduler,
            store=self._store,
            keys=KeyRing(self._keys, lock=asyncio.Lock, clock=clock),
            metrics=self._metrics,
            secrets=self._secrets,
            clock=clock,
            sleep=asyncio.sleep,
            rng=random.Random(),  # noqa: S311 - spreads pauses, guards no secret
            pacing=Pacing(on_landing=True),
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Open the connections to SQS, and let the others be opened. Idempotent.

        Raises:
            ConfigurationError: aiobotocore is not installed.
            TransportError: the region, the profile or the CA bundle is missing, or the endpoint is
                not a URL.
        """
        for each in self._all:
            await each.start()

    async def close(self) -> None:
        """Close all connections. Idempotent, and safe before `start`."""
        for each in self._all:
            await each.stop()


def _check(access: Access, factory: str, wanted: str) -> None:
    """Check a session by its method that creates clients, to import no SDK for it."""
    from botocore.config import Config

    session, config = access.get("session"), access.get("config")
    if session is not None and not hasattr(session, factory):
        raise ConfigurationError(
            f"{wanted} as its session=, got {type(session).__module__}.{type(session).__name__}"
        )
    if not isinstance(config, Config | None):
        raise ConfigurationError(
            f"config= takes a botocore.config.Config, got {type(config).__name__}: "
            "write Config(read_timeout=5)"
        )
