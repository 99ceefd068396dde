"""Callers of a service for an event loop: lean where there is a route, otherwise aiobotocore's."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from headgate.jobs.aws.connections.connection import Connection, async_aws_client, async_session
from headgate.jobs.aws.connections.faults import FOREIGN_AT_OPENING, fault
from headgate.jobs.aws.lean.caller import Caller, LeanCaller
from headgate.jobs.aws.lean.route import Route, route_of
from headgate.jobs.aws.lean.sdk_caller import SdkCaller
from headgate.jobs.aws.lean.services import JsonService
from headgate.jobs.core.clock import Clock
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.aws")


async def open_async_callers(
    service: JsonService,
    *connections: Connection,
    closing: AsyncExitStack,
    lean: bool,
    clock: Clock,
) -> list[Caller]:
    """Return a caller for each connection; they share one set of credentials.

    Args:
        service: the service to call.
        connections: the timeouts and pools; endpoint, session and settings are the same in all.
            With settings of the user's own, aiobotocore makes the calls, as they may hold anything.
        closing: is given what closes the connections.
        lean: False for aiobotocore making the calls.
        clock: tells the time of signatures.

    Raises:
        ConfigurationError: aiobotocore is not installed.
        TransportError: the region, the profile or the CA bundle is missing, or the endpoint is not
            a URL.
    """
    first, *others = connections
    session = async_session(first.session)
    sdk = await closing.enter_async_context(async_aws_client(service.name, first, session))
    route = await find_async_route(service, first, session, sdk) if lean else None
    if route is not None:
        return [await _lean(service, route, each, closing, clock) for each in connections]
    sdks = [sdk] + [
        await closing.enter_async_context(async_aws_client(service.name, each, session))
        for each in others
    ]
    return [SdkCaller(each, attempts=1, pause=asyncio.sleep) for each in sdks]


async def _lean(
    service: JsonService,
    route: Route,
    connection: Connection,
    closing: AsyncExitStack,
    clock: Clock,
) -> Caller:
    from headgate.jobs.aws.lean.async_http import async_http

    http = await closing.enter_async_context(async_http(route, connection))
    return LeanCaller(
        service, route, http, attempts=connection.attempts, clock=clock, pause=asyncio.sleep
    )


async def find_async_route(
    service: JsonService, connection: Connection, session: Any, sdk: Any
) -> Route | None:
    """`jobs.aws.lean.opening.find_route` for aiobotocore, with any session."""
    if connection.config is not None:
        _log.debug("using aiobotocore for %s, with the given settings", service.name)
        return None
    try:
        found = await session.get_credentials()
        credentials = found.get_frozen_credentials if found else None
        return await asyncio.to_thread(  # reads the CA bundle
            route_of, sdk, session, credentials, actions=service.actions
        )
    except FOREIGN_AT_OPENING as error:
        raise fault(error, action=f"{service.name}:*", target=service.name, opening=True) from error
