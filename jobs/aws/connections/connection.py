"""Creation of AWS clients: region, endpoint, timeouts, retries and user agent."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict

from headgate.jobs.aws.connections.faults import FOREIGN_AT_OPENING, fault
from headgate.jobs.aws.connections.instance_role import expects_role, no_role_yet
from headgate.jobs.aws.connections.plain_http import check_endpoint
from headgate.jobs.core.immediate import immediate
from headgate.jobs.errors import LibraryMissing
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_version import own_version

if TYPE_CHECKING:
    from aiobotocore.session import AioSession
    from boto3.session import Session
    from botocore.config import Config

CONNECT_TIMEOUT_S = 5
"""Seconds to reach an endpoint: more than AWS ever needs, less than a heartbeat can wait."""


class Access(TypedDict, total=False):
    """The part of a `Connection` that is the user's, in keywords: whatever is left out is None."""

    endpoint_url: str | None
    region: str | None
    session: Session | AioSession | None
    config: Config | None
    shared: SharedSession


class SharedSession:
    """A session of boto3 that several clients are made of, made when the first needs it.

    They share credentials, and botocore reads its own files once for all of them. `aws_client`
    makes the clients one at a time, as the session is not thread-safe.
    """

    def __init__(self) -> None:
        self._made: tuple[Any, Any] | None = None
        self._lock = threading.Lock()

    def session(self) -> Any:
        """Return the session. Raises as `core` does."""
        return self._both()[0]

    def core(self) -> Any:
        """Return botocore's session, which it is made of.

        Raises:
            TransportError: the profile is missing, or the credentials are not available now: a
                client made without any never gets them.
        """
        return self._both()[1]

    def _both(self) -> tuple[Any, Any]:
        import boto3

        with self._lock:
            if self._made is None:
                core = _core_session()
                # One for all: each adds methods to the class of S3's client, which takes them once.
                self._made = boto3.session.Session(botocore_session=core), core
            return self._made


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The endpoint and region of AWS, and a client's timeouts, retries and connections.

    Everything else comes from botocore's own chain: credentials (which botocore refreshes, so
    nothing here holds on to them), ``AWS_PROFILE``, ``AWS_ENDPOINT_URL`` and
    ``AWS_ENDPOINT_URL_<SERVICE>``.
    """

    endpoint_url: str | None = None
    """None: the one from the environment or the profile, else AWS's own."""
    region: str | None = None
    """None: ``AWS_REGION``, then what botocore finds (``AWS_DEFAULT_REGION``, the profile)."""
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    read_timeout_s: float = 10
    """Seconds of silence after which a request is given up."""
    bounded: bool = True
    """True if aiobotocore gives a request up after the two timeouts together, even if its answer is
    coming in. False where large bodies may need longer. boto3 has no such bound."""
    attempts: int = 3
    """Tries of one call, the first counted, in botocore's ``standard`` mode: connection errors,
    5xx and throttling are tried again after a jittered pause."""
    pool: int = 50
    """Maximum number of connections, and so of requests under way."""
    session: Session | AioSession | None = None
    """The user's own session, of boto3 or aiobotocore; None makes one."""
    config: Config | None = None
    """The user's own settings, which win over these; aiobotocore's `AioConfig` is one, too."""
    shared: SharedSession = field(default_factory=SharedSession, compare=False)
    """The session of synchronous clients, where the user has given none."""

    def arguments(self, region: str | None = None) -> dict[str, Any]:
        """Return the arguments shared by botocore's, boto3's and aiobotocore's client factories.

        Args:
            region: the region of the user's own session.
        """
        configured: str | None = getattr(self.config, "region_name", None)
        region = self.region or configured or region or _region()
        return {"endpoint_url": self.endpoint_url, "region_name": region}

    def options(self) -> dict[str, Any]:
        """Return the arguments of botocore's `Config`, or of aiobotocore's."""
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


def _core_session() -> Any:
    from headgate.jobs.aws.connections.bounded_credentials import BoundedCredentialsSession

    core = BoundedCredentialsSession()
    try:
        if expects_role(core) and core.get_credentials() is None:
            raise no_role_yet()
    except FOREIGN_AT_OPENING as error:
        raise fault(error, action="sts:*", target="credentials", opening=True) from error
    return core


def aws_client(service: str, connection: Connection) -> Any:
    """Return a boto3 client, never of boto3's default session, which is not thread-safe.

    Args:
        service: the service's name.
        connection: the session, the user's own or a shared one, and the settings.

    Raises:
        SettingsInvalid: the endpoint is another host's, and without TLS.
        TransportError: the region or the profile is missing, or the endpoint is not a URL, or the
            credentials are not available now.
    """
    from botocore.config import Config

    config = Config(**connection.options())
    if connection.config is not None:
        config = config.merge(connection.config)
    try:
        with _CREATING:
            session: Any = connection.session
            region = None if session is None else session.region_name
            if session is None:
                session = connection.shared.session()
            # The stubs have an overload for each service's name; it is decided at run time.
            client = session.client(service, config=config, **connection.arguments(region))
    except FOREIGN_AT_OPENING as error:
        raise fault(error, action=f"{service}:*", target=service, opening=True) from error
    check_endpoint(client)
    return client


_CREATING = threading.Lock()
"""Held while a client is created: a boto3 session is not thread-safe, and a user's may be shared by
several threads' clients."""


class ImmediateClient:
    """A boto3 client whose calls are awaited but never suspend; see `jobs.core.immediate`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.exceptions = client.exceptions
        self.meta = client.meta

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        return immediate(getattr(self._client, name))


@asynccontextmanager
async def async_aws_client(
    service: str, connection: Connection, session: AioSession | None = None
) -> AsyncIterator[Any]:
    """Open an aiobotocore client; ``session`` shares credentials between clients.

    Raises:
        LibraryMissing: aiobotocore is not installed.
        SettingsInvalid: the endpoint is another host's, and without TLS.
        TransportError: the region or the profile is missing, or the endpoint is not a URL.
    """
    owner = session or async_session(connection.session)
    from aiobotocore.config import AioConfig

    from headgate.jobs.aws.connections.bounded import BoundedSession

    config = AioConfig(
        **connection.options(),
        **({"http_session_cls": BoundedSession} if connection.bounded else {}),
    )
    if connection.config is not None:
        given: Any = connection.config  # botocore's is as good as aiobotocore's own
        config = config.merge(given)
    own = connection.session is None
    region = None if own else owner.get_config_variable("region")
    async with AsyncExitStack() as stack:
        try:
            # The stubs want the service's name as a literal.
            opening = owner.create_client(  # type: ignore[call-overload]
                service, config=config, **connection.arguments(region)
            )
            client = await stack.enter_async_context(opening)
        except FOREIGN_AT_OPENING as error:
            raise fault(error, action=f"{service}:*", target=service, opening=True) from error
        check_endpoint(client)
        yield client


def async_session(given: Any = None) -> AioSession:
    """Return the given aiobotocore session, or make one; its clients share credentials.

    While the credentials of ours are not available, each call looks them up again.

    Raises:
        LibraryMissing: aiobotocore is not installed.
    """
    try:
        from headgate.jobs.aws.connections.late_credentials import PatientSession
    except ImportError as error:
        raise LibraryMissing(
            "talking to AWS from an event loop", "aiobotocore", "headgate[worker]"
        ) from error
    return PatientSession() if given is None else given


def region_of_settings() -> str | None:
    """Return the region of AWS's settings, that of a connection without one; None: there is none.

    Raises:
        TransportError: the profile is missing.
    """
    import botocore.session

    if (region := _region()) is not None:
        return region
    try:
        found: str | None = botocore.session.get_session().get_config_variable("region")
    except FOREIGN_AT_OPENING as error:
        raise fault(error, action="sts:*", target="region", opening=True) from error
    return found


def _region() -> str | None:
    """Return ``AWS_REGION``, which Lambda, ECS and AWS's other SDKs use, but botocore doesn't read.

    https://docs.aws.amazon.com/sdkref/latest/guide/feature-region.html
    """
    return os.environ.get("AWS_REGION") or None


@cache
def _user_agent() -> str:
    """Return the whole user agent, in place of botocore's with ``user_agent_extra``.

    botocore builds its own text anew for every request, an eighth of the request's CPU time.
    """
    import botocore

    parts = (own_version(), botocore.__version__, platform.python_version())
    return "headgate/{} botocore/{} python/{}".format(*parts)
