"""Callers of a service for synchronous code: lean where there is a route, otherwise boto3's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from headgate.jobs.aws.connections.connection import (
    Connection,
    ImmediateClient,
    aws_client,
)
from headgate.jobs.aws.connections.faults import FOREIGN_AT_OPENING, fault
from headgate.jobs.aws.lean.caller import Caller, LeanCaller
from headgate.jobs.aws.lean.route import Route, route_of
from headgate.jobs.aws.lean.sdk_caller import SdkCaller
from headgate.jobs.aws.lean.services import JsonService
from headgate.jobs.aws.lean.sockets import Sockets
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.immediate import immediate
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.aws")


def open_caller(
    service: JsonService,
    connection: Connection,
    closing: AsyncExitStack,
    *,
    lean: bool,
    clock: Clock,
    sleep: Callable[[float], None],
) -> Caller:
    """Return a caller that never suspends, and is safe to share between threads.

    Args:
        service: the service to call.
        connection: the endpoint, timeouts and pool. With a session or settings of the user's own,
            boto3 makes the calls, as they may hold anything.
        closing: is given what closes the connections.
        lean: False for boto3 making the calls.
        clock: tells the time of signatures.
        sleep: pauses between two tries of a call.

    Raises:
        TransportError: the region, the profile or the CA bundle is missing, or the endpoint is not
            a URL, or the credentials are not available now.
    """
    sdk = aws_client(service.name, replace(connection, attempts=1))
    closing.callback(sdk.close)
    core = connection.shared.core() if connection.session is None else None
    route = find_route(service, connection, core, sdk) if lean else None
    attempts, pause = connection.attempts, immediate(sleep)
    if route is None:
        return SdkCaller(ImmediateClient(sdk), attempts=attempts, pause=pause)
    sockets = Sockets(route, connection)
    closing.callback(sockets.close)
    return LeanCaller(service, route, sockets, attempts=attempts, clock=clock, pause=pause)


def find_route(service: JsonService, connection: Connection, core: Any, sdk: Any) -> Route | None:
    """Return the route of a boto3 client; None if only boto3 can make its calls.

    Args:
        service: the service to call.
        connection: what the client was made with.
        core: its session; None for the user's own.
        sdk: the client.

    Raises:
        TransportError: the CA bundle can't be read.
    """
    if core is None or connection.config is not None:
        _log.debug("using boto3 for %s, with the given settings", service.name)
        return None
    try:
        found = core.get_credentials()
        credentials = immediate(found.get_frozen_credentials) if found else None
        return route_of(sdk, core, credentials, actions=service.actions)
    except FOREIGN_AT_OPENING as error:
        raise fault(error, action=f"{service.name}:*", target=service.name, opening=True) from error
