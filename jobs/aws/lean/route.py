"""The way to an AWS endpoint as botocore finds it, unless only botocore itself can go it."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from types import FunctionType
from typing import Any, Self
from urllib.parse import SplitResult, urlsplit

from botocore.exceptions import EndpointProviderError
from botocore.httpsession import create_urllib3_context, get_cert_path
from botocore.utils import get_environ_proxies

from headgate.jobs.aws.lean.sigv4 import Credentials
from headgate.jobs.core.settings import Settings
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.aws")

KEEP_ALIVE_S = 12
"""Seconds for which an idle connection is used again: AWS closes it after 20 s."""

_PORTS = {"http": 80, "https": 443}

_EVENTS = (
    "provide-client-params",
    "before-parameter-build",
    "before-endpoint-resolution",
    "before-call",
    "request-created",
    "choose-signer",
    "before-sign",
    "before-send",
    "response-received",
    "before-parse",
    "needs-retry",
    "after-call",
    "after-call-error",
)
"""botocore's events of a call.
https://docs.aws.amazon.com/boto3/latest/guide/events.html"""

_OWNERS = frozenset({"aiobotocore", "aws_lambda_powertools", "boto3", "botocore"})
"""The packages whose code may be left out: botocore's own, and what only adds its name to the user
agent of every client in its process."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ServiceEndpoint:
    """The server of a service's requests, all of which go to its root."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: SplitResult) -> Self:
        """Return the server of a URL.

        Raises:
            ValueError: its port is out of range, or it has no host.
        """
        if not url.hostname:
            raise ValueError(f"Invalid endpoint: {url.geturl()}")
        return cls(scheme=url.scheme, host=url.hostname, port=url.port or _PORTS[url.scheme])

    @property
    def authority(self) -> str:
        """The value of the ``host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}/"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The endpoint of requests, and the means to sign and send them."""

    endpoint: ServiceEndpoint
    region: str
    user_agent: str
    credentials: Callable[[], Awaitable[Credentials]]
    """Returns a consistent set of credentials, refreshed if necessary."""
    tls: ssl.SSLContext | None = None
    """None for plain HTTP."""


def route_of(
    client: Any,
    session: Any,
    credentials: Callable[[], Awaitable[Credentials]] | None,
    *,
    actions: Sequence[str],
) -> Route | None:
    """Return the route to the endpoint of a client; None if only the client itself can call it.

    That is: without credentials, with another signature than version 4, with an endpoint that
    depends on the call or lies below a path, through a proxy, with botocore's plugins, its
    client-side monitoring, handlers of its events or a wrapper around its calls, as tracers and
    mocks of AWS have them, in a Lambda function, where each request carries the invocation's trace,
    and with ``HEADGATE_SDK_CALLS``.
    Reads the CA bundle.

    Args:
        client: botocore's or aiobotocore's.
        session: its session, of botocore or aiobotocore.
        credentials: returns the session's credentials; None if it has none.
        actions: the calls to make.

    Raises:
        OSError: the CA bundle can't be read.
        ValueError: the endpoint is not a URL.
    """
    service, url = client.meta.service_model.service_name, _url_of(client)
    if credentials is None:
        reason: str | None = "there are no credentials"
    elif url is None:
        reason = "no endpoint serves all of its calls"
    else:
        calls = [f"{service}.{action}" for action in actions]
        reason = _reason_against(client, session, url, calls)
    if reason or credentials is None or url is None:
        _log.debug("using botocore's client for %s: %s", service, reason)
        return None
    return Route(
        endpoint=ServiceEndpoint.of(url),
        region=client.meta.region_name,
        user_agent=client.meta.config.user_agent,
        credentials=credentials,
        tls=_tls(session) if url.scheme == "https" else None,
    )


def _url_of(client: Any) -> SplitResult | None:
    """Return the URL of a client's calls; None if there is not one for all of them.

    ``client.meta.endpoint_url`` is another in some regions with FIPS or dual-stack endpoints, such
    as those of GovCloud: it comes from a file of endpoints that calls no longer go by. An account's
    own endpoint, which DynamoDB may prefer, is not taken: the region's serves all accounts.
    """
    # botocore has no public way to ask its rules without making a call.
    resolver = client._ruleset_resolver  # noqa: SLF001 - as above
    values = {
        name: resolver._builtins.get(parameter.builtin)  # noqa: SLF001 - as above
        for name, parameter in resolver._param_definitions.items()  # noqa: SLF001 - as above
    }
    # An account is a function, which would look credentials up.
    given = {name: each for name, each in values.items() if each is not None and not callable(each)}
    try:
        found = resolver._provider.resolve_endpoint(**given)  # noqa: SLF001 - as above
    except EndpointProviderError:
        return None
    return None if found.headers or found.properties else urlsplit(found.url)


def _reason_against(client: Any, session: Any, url: SplitResult, calls: list[str]) -> str | None:
    config = client.meta.config
    # botocore has no public way to ask for what takes part in its calls.
    calling = type(client)._make_api_call  # noqa: SLF001 - as above
    reasons = {
        "HEADGATE_SDK_CALLS asks for it": Settings.from_env().sdk_calls,
        # Since botocore 1.38.
        "its signature is not SigV4": config.signature_version != "v4"
        or getattr(config, "auth_scheme_preference", None),
        "its endpoint is more than a host": url.scheme not in _PORTS
        or url.path not in {"", "/"}
        or url.query
        or url.username,
        "its endpoint differs by account or by call": getattr(
            config, "account_id_endpoint_mode", None
        )
        == "required"
        or config.endpoint_discovery_enabled is True,
        "it goes through a proxy": get_environ_proxies(url.geturl()).get(url.scheme),
        "botocore has plugins": os.environ.get("BOTOCORE_EXPERIMENTAL__PLUGINS", "DISABLED")
        != "DISABLED",
        "botocore's client-side monitoring is on": session.get_config_variable("csm_enabled"),
        "requests of a function carry its trace": "AWS_LAMBDA_FUNCTION_NAME" in os.environ,
        "something wraps botocore's calls": _is_wrapped(calling),
        "something handles botocore's events": any(
            _owner(handler) not in _OWNERS for call in calls for handler in _handlers(client, call)
        ),
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _is_wrapped(function: Any) -> bool:
    """Return True for a method that is not botocore's own, whatever it claims to be."""
    return type(function) is not FunctionType or _root(function.__globals__["__name__"]) not in (
        _OWNERS
    )


def _handlers(client: Any, call: str) -> Iterator[Any]:
    """Yield the handlers of a call's events, such as those of ``sqs.SendMessageBatch``."""
    registered = client.meta.events._emitter._handlers  # noqa: SLF001 - there is no public way
    for event in _EVENTS:
        yield from registered.prefix_search(f"{event}.{call}")


def _owner(handler: Any) -> str:
    while isinstance(handler, partial):
        handler = handler.func
    return _root(handler.__module__)


def _root(module: str) -> str:
    return module.partition(".")[0]


def _tls(session: Any) -> ssl.SSLContext:
    """Return botocore's own TLS context, with the CA bundle that it would use. Reads files."""
    bundle: str | None = session.get_config_variable("ca_bundle")
    bundle = bundle or os.environ.get("REQUESTS_CA_BUNDLE")
    context: ssl.SSLContext = create_urllib3_context()
    context.check_hostname = True  # off by default, since urllib3 checks by itself
    context.load_verify_locations(bundle or get_cert_path(True))
    return context
