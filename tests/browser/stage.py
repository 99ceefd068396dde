"""The stage: the shop on a local AWS, at work, three consoles, and a site of somebody else's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from secrets import token_hex
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headgate import Client, Schedule, acting_as
from headgate.jobs.aws.backend import AsyncAwsBackend
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import Events
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.replaying.report import ReplayReport
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import TransportError
from headgate.ops.console import console
from headgate.ops.console.access.rules import LOOPBACK_HOSTS, TokenAccess, everybody
from headgate.ops.console.serving import server_of
from headgate.ops.demo.environment import only_local_aws
from headgate.ops.dev.preparing import provision_all
from headgate.ops.listening import listen
from headgate.ops.local.aws import LocalAws
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker
from tests.browser.shop import (
    BANK,
    Catalogue,
    Email,
    Payment,
    app,
    capture_payment,
    import_catalogue,
    send_email,
    sync_stock,
)
from tests.browser.traffic import Traffic, load

_ORDERED, _BOUNCED, _IMPORTED = 75, 40, 3
_HOSTS = {"elsewhere": "127.0.0.1"}
"""Sites that are not reached as ``localhost``: to browsers another host's pages are cross-site."""

_SETTINGS = WorkerSettings(
    concurrency=50, receive_wait=timedelta(seconds=1), drain=timedelta(seconds=1)
)


def perform(driver: Sequence[str]) -> int:
    """Set the stage, run a driver on it, and clear it; return the driver's exit code.

    Args:
        driver: the command; it gets one more argument, the stage as JSON: the address of each
            site, and the ids of what there is to see.
    """
    with LocalAws() as aws, only_local_aws(aws.endpoint_url), acting_as("grace@ops"):
        provision_all(app)
        return asyncio.run(_performed(driver))


async def _performed(driver: Sequence[str]) -> int:
    traffic = Traffic()
    events = Events(traffic)
    async with AsyncExitStack() as stack:
        client = stack.enter_context(Client(app, events=events))
        for _ in range(2):
            await stack.enter_async_context(_worker(events))
        shown = await _scene(client, traffic)
        for name, pages in _sites(client).items():
            port = await stack.enter_async_context(_served(pages))
            shown[name] = f"http://{_HOSTS.get(name, 'localhost')}:{port}"
        async with asyncio.TaskGroup() as group:
            begun = asyncio.get_running_loop().create_future()
            group.create_task(asyncio.to_thread(_replay_slowly, client, begun))
            background = [group.create_task(each) for each in (load(client), traffic.report())]
            try:
                shown["replay"] = await begun
                return await _driven([*driver, json.dumps(shown)])
            finally:
                client.dead_letters.stop()
                for each in background:
                    each.cancel()


def _sites(client: Client) -> dict[str, ASGIApp]:
    """Return three consoles: one that may act, one that may not, one that asks for a token; and a
    site of somebody else's."""
    everyone = everybody("ada@laptop")
    shared: dict[str, Any] = {
        "hosts": LOOPBACK_HOSTS,
        "client": client,
        "deployment": Deployment(),
    }
    return {
        "console": console(app, access=everyone, **shared),
        "read_only": console(app, access=everyone, read_only=True, **shared),
        "guarded": console(app, access=TokenAccess(token_hex(24), SystemClock()), **shared),
        "elsewhere": Starlette(routes=[Route("/", _another_page)]),
    }


async def _another_page(_request: Request) -> Response:
    return HTMLResponse("<!doctype html><title>Another site</title>")


async def _driven(command: Sequence[str]) -> int:
    """Run a command to its end; return its exit code."""
    running = await asyncio.create_subprocess_exec(*command)
    try:
        return await running.wait()
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


async def _scene(client: Client, traffic: Traffic) -> dict[str, str]:
    """Have something happen for each page, and return the ids of what is worth a look."""
    orders = [
        Payment(order_id=f"{'declined' if n % 5 == 4 else 'order'}-{n}") for n in range(_ORDERED)
    ]
    handles = await asyncio.to_thread(client.submit_many, capture_payment, orders, tenant="org-1")
    bounced = [Email(to=f"nobody-{n}@shop.example") for n in range(_BOUNCED)]
    await asyncio.to_thread(client.submit_many, send_email, bounced, tenant="org-3")
    imports = [Catalogue(supplier=f"supplier-{n}") for n in range(_IMPORTED)]
    running = await asyncio.to_thread(client.submit_many, import_catalogue, imports)
    await traffic.until_dead("capture-payment", len(orders))
    await traffic.until_dead("send-email", len(bounced))
    await traffic.until_progress("import-catalogue", _IMPORTED)
    BANK.is_down = False
    letters = DeadLetterFilter(types=("capture-payment",), errors=("ConnectionError",))
    await asyncio.to_thread(client.dead_letters.replay, letters, limit=8)
    await asyncio.to_thread(_arrange, client)
    [letter] = (await asyncio.to_thread(client.dead_letters.list, letters, limit=1)).letters
    return {
        "letter": letter.message_id,
        "dead_job": str(letter.job_id or handles[0].id),
        "running_job": running[0].id,
        "doomed_job": running[1].id,
    }


def _arrange(client: Client) -> None:
    """Make schedules at run time, and pause some things."""
    when = Schedule.cron("0 9 ? * MON-FRI *", timezone="America/New_York")
    client.schedules.create("warm-up", sync_stock, schedule=when)
    client.schedules.create("price-check", sync_stock, schedule=Schedule.rate(timedelta(hours=2)))
    client.schedules.pause("price-check")
    client.pauses.create(
        queue="notifications",
        priority="low",
        lasts=timedelta(hours=2),
        reason="the SMS provider asks for less",
    )


def _replay_slowly(client: Client, begun: asyncio.Future[str]) -> None:
    """Replay some letters over an hour, which outlasts the stage; tell the replay's id."""
    letters = DeadLetterFilter(types=("send-email",))
    loop = begun.get_loop()

    def tell(report: ReplayReport) -> None:
        loop.call_soon_threadsafe(_resolve, begun, report.id)

    try:
        client.dead_letters.replay(letters, limit=30, spread=timedelta(hours=1), on_step=tell)
    except TransportError as error:  # on a busy machine; the stage goes on with a stopped replay
        print(f"the slow replay has ended early: {error}")


def _resolve(begun: asyncio.Future[str], replay_id: str) -> None:
    if not begun.done():
        begun.set_result(replay_id)


@asynccontextmanager
async def _worker(events: Events) -> AsyncIterator[Worker]:
    async with AsyncAwsBackend(app.topology) as backend:
        worker = Worker(app, backend, _SETTINGS, events=events)
        running = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.hurry()
            await running


@asynccontextmanager
async def _served(pages: ASGIApp) -> AsyncIterator[int]:
    """Serve a site in this event loop, and yield its port."""
    with listen("127.0.0.1", 0) as listener:
        server = server_of(pages)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await serving
