"""How a client of AWS is made: its region, endpoint, patience, and the name it goes by."""

from __future__ import annotations

import os
import platform
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from headgate.jobs.aws.faults import FOREIGN_AT_OPENING, fault
from headgate.jobs.aws.instance_role import expects_role, no_role_yet
from headgate.jobs.core.immediate import immediate
from headgate.jobs.errors import ConfigurationError

if TYPE_CHECKING:
    from aiobotocore.session import AioSession

CONNECT_TIMEOUT_S = 5
"""Seconds to reach an endpoint: more than AWS ever needs, less than a heartbeat can wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Where AWS is, and for how long and how often to ask it.

    Everything else comes from botocore's own chain: credentials (which botocore refreshes, so
    nothing here holds on to them), ``AWS_PROFILE``, ``AWS_ENDPOINT_URL`` and
    ``AWS_ENDPOINT_URL_<SERVICE>``.
    """

    endpoint_url: str | None = None
    """None: what the environment and the profile say, else AWS's own."""
    region: str | None = None
    """None: ``AWS_REGION``, then what botocore finds (``AWS_DEFAULT_REGION``, the profile)."""
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    read_timeout_s: float = 10
    """Seconds of silence after which a request is given up."""
    bounded: bool = True
    """Whether aiobotocore gives a request up after the two timeouts together, even if its answer
    is coming in. False where large bodies may need longer. boto3 has no such bound."""
    attempts: int = 3
    """Tries of one call, the first counted, in botocore's ``standard`` mode: connection errors,
    5xx and throttling are tried again after a jittered pause."""
    pool: int = 50
    """Connections kept at most, so requests under way at once."""

    def arguments(self) -> dict[str, Any]:
        """What botocore's, boto3's and aiobotocore's factories of clients take alike."""
        return {"endpoint_url": self.endpoint_url, "region_name": self.region or _region()}

    def config(self) -> dict[str, Any]:
        """The arguments of botocore's `Config`, or of aiobotocore's."""
        return {
            "connect_timeout": self.connect_timeout_s,
            "read_timeout": self.read_timeout_s,
            "max_pool_connections": self.pool,
            "retries": {"mode": "standard", "total_max_attempts": self.attempts},
            # Requests are built by typed functions here, so checking them again only costs CPU;
            # and botocore's complaint would quote the value, which may be a payload.
            "parameter_validation": False,
            "user_agent": _user_agent(),
        }


def blocking_client(service: str, connection: Connection) -> Any:
    """A boto3 client, from a session of its own: boto3's default session is not thread-safe.

    Raises:
        TransportError: the region or the profile is missing, or the endpoint is no URL, or the
            credentials can't be had now: a client that is made without any never has some.
    """
    import boto3
    import botocore.session
    from botocore.config import Config

    try:
        core = botocore.session.get_session()
        if expects_role(core) and core.get_credentials() is None:
            raise no_role_yet()
        session = boto3.session.Session(botocore_session=core)
        # The stubs have an overload a service by name; which service is decided at run time.
        return session.client(  # type: ignore[call-overload]
            service, config=Config(**connection.config()), **connection.arguments()
        )
    except FOREIGN_AT_OPENING as error:
        raise fault(error, action=f"{service}:*", target=service, opening=True) from error


class ImmediateClient:
    """A boto3 client whose calls are awaited, and never suspend; see `jobs.core.immediate`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.exceptions = client.exceptions
        self.meta = client.meta

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        return immediate(getattr(self._client, name))


@asynccontextmanager
async def async_client(
    service: str, connection: Connection, session: AioSession | None = None
) -> AsyncIterator[Any]:
    """An open aiobotocore client; ``session`` shares credentials between clients.

    Raises:
        ConfigurationError: aiobotocore is not installed.
        TransportError: the region or the profile is missing, or the endpoint is no URL.
    """
    owner = session or async_session()
    from aiobotocore.config import AioConfig

    from headgate.jobs.aws.bounded import BoundedSession

    config = AioConfig(
        **connection.config(),
        **({"http_session_cls": BoundedSession} if connection.bounded else {}),
    )
    async with AsyncExitStack() as stack:
        try:
            # As above: the stubs want the service's name spelled out.
            opening = owner.create_client(  # type: ignore[call-overload]
                service, config=config, **connection.arguments()
            )
            client = await stack.enter_async_context(opening)
        except FOREIGN_AT_OPENING as error:
            raise fault(error, action=f"{service}:*", target=service, opening=True) from error
        yield client


def async_session() -> AioSession:
    """An aiobotocore session: one set of credentials for the clients made from it, which are
    looked up again by each call while they can't be had.

    Raises:
        ConfigurationError: aiobotocore is not installed.
    """
    try:
        from headgate.jobs.aws.late_credentials import PatientSession
    except ImportError as error:
        raise ConfigurationError(
            "talking to AWS from an event loop needs aiobotocore: pip install 'headgate[worker]'"
        ) from error
    return PatientSession()


def _region() -> str | None:
    """``AWS_REGION``: what Lambda, ECS and AWS's other SDKs go by. botocore itself doesn't read it.

    https://docs.aws.amazon.com/sdkref/latest/guide/feature-region.html
    """
    return os.environ.get("AWS_REGION") or None


@cache
def _user_agent() -> str:
    """Whole, not botocore's ``user_agent_extra``: botocore builds its own text anew for every
    request, which is an eighth of what a request costs in CPU."""
    import botocore

    try:
        own = version("headgate")
    except PackageNotFoundError:  # bundled into a function's zip without its metadata
        own = "unknown"
    return f"headgate/{own} botocore/{botocore.__version__} python/{platform.python_version()}"
