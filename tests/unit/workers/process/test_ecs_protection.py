"""Scale-in protection of the ECS task: held while jobs run, and never in their way."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.testing import LoopClock
from headgate.workers.configuration import WorkerSettings
from headgate.workers.process.ecs_protection import (
    CLOSE_S,
    EXPIRES_MIN,
    GAP_S,
    HOLD_S,
    IDLE_S,
    RENEW_S,
    REQUEST_S,
    ScaleInProtection,
    bound_s,
    protecting,
    put_json,
)

ENDPOINT = "http://169.254.170.2/api/0123456789abcdef"

Fault = OSError | tuple[int, object] | None
"""A fault of the agent; None hangs."""

WORKING = object()


class Agent:
    """The ECS agent: the requests with their times, and the end of the task's protection."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.asked: list[tuple[float, bool]] = []
        self.urls: set[str] = set()
        self.protected_until = 0.0
        self.lapses = 0
        """Number of times that a protection was renewed only after it had expired."""
        self.fault: object = WORKING

    @property
    def protected(self) -> bool:
        return self.clock.monotonic() < self.protected_until

    def times(self, *, protect: bool) -> list[float]:
        return [at for at, enabled in self.asked if enabled is protect]

    async def __call__(self, url: str, body: Mapping[str, object]) -> tuple[int, bytes]:
        self.urls.add(url)
        enabled = body["ProtectionEnabled"]
        assert isinstance(enabled, bool)
        self.asked.append((self.clock.monotonic(), enabled))
        if self.fault is not WORKING:
            return await self._fail()
        self._carry_out(body)
        protection = {"ProtectionEnabled": enabled, "TaskArn": "arn:aws:ecs:::task/one"}
        return 200, json.dumps({"protection": protection}).encode()

    def _carry_out(self, body: Mapping[str, object]) -> None:
        now = self.clock.monotonic()
        if body["ProtectionEnabled"]:
            assert body["ExpiresInMinutes"] == EXPIRES_MIN
            self.lapses += 0 < self.protected_until <= now
            self.protected_until = now + EXPIRES_MIN * 60
        else:
            assert body.keys() == {"ProtectionEnabled"}  # the agent refuses unknown fields
            self.protected_until = 0.0

    async def _fail(self) -> tuple[int, bytes]:
        match self.fault:
            case OSError() as error:
                raise error
            case (int(status), str(page)):
                return status, page.encode()
            case (int(status), answer):
                return status, json.dumps(answer).encode()
        await asyncio.Event().wait()
        raise AssertionError("it hangs for ever")


class Task:
    """An ECS task with a worker in it, whose jobs the test simulates."""

    def __init__(self) -> None:
        self.busy = False
        self.agent = Agent()
        self.faults: list[str] = []
        self.protection = ScaleInProtection(
            ENDPOINT,
            busy=lambda: self.busy,
            clock=self.agent.clock,
            rng=random.Random(1),  # noqa: S311 - spreads retries
            on_fault=self.faults.append,
            http=self.agent,
        )

    async def works(self, seconds: float) -> None:
        self.busy = True
        await asyncio.sleep(seconds)
        self.busy = False


@asynccontextmanager
async def running() -> AsyncIterator[Task]:
    task = Task()
    async with protecting(task.protection):
        yield task


REFUSALS: dict[str, Fault] = {
    "nobody listens": ConnectionRefusedError("connection refused"),
    "it hangs": None,
    "refused by ECS": (200, {"failure": {"Reason": "TASK_NOT_VALID", "Detail": "no service"}}),
    "refused without detail": (200, {"failure": {"Reason": "DEPLOYMENT_BLOCKED"}}),
    "no permission": (400, {"error": {"Code": "AccessDeniedException", "Message": "no"}}),
    "throttled": (429, "too many requests"),
    "it fails": (500, {"error": {"Code": "ServerException", "Message": "Unexpected"}}),
    "not what was asked": (200, {"protection": {"ProtectionEnabled": "maybe"}}),
    "no object": (200, []),
}


@pytest.mark.looptime
async def test_a_task_that_never_works_asks_for_nothing() -> None:
    async with running() as task:
        await asyncio.sleep(3600)
    assert task.agent.asked == []


@pytest.mark.looptime
async def test_a_job_is_protected_within_a_second_of_its_start() -> None:
    async with running() as task:
        await asyncio.sleep(60)
        began = task.agent.clock.monotonic()
        await task.works(5)
        assert task.agent.protected
    [asked] = task.agent.times(protect=True)
    assert began <= asked <= began + 1
    assert task.agent.urls == {f"{ENDPOINT}/task-protection/v1/state"}


@pytest.mark.looptime
async def test_it_is_released_once_when_no_job_has_run_for_a_while() -> None:
    async with running() as task:
        await task.works(100)
        ended = task.agent.clock.monotonic()
        await asyncio.sleep(3600)
        [released] = task.agent.times(protect=False)
    assert ended + IDLE_S - 1 <= released <= ended + IDLE_S + 1
    assert len(task.agent.asked) == 2


@pytest.mark.looptime
async def test_jobs_with_pauses_between_them_do_not_make_it_flap() -> None:
    async with running() as task:
        for _ in range(100):
            await task.works(2)
            await asyncio.sleep(IDLE_S - 2)
            assert task.agent.protected
        assert task.agent.times(protect=False) == []
        gaps = [later - earlier for earlier, later in pairwise(task.agent.times(protect=True))]
    assert all(RENEW_S <= gap <= RENEW_S + 2 for gap in gaps)


@pytest.mark.looptime
async def test_a_task_that_is_never_idle_lets_ecs_have_it_for_a_minute_every_hour() -> None:
    async with running() as task:
        task.busy = True
        for _ in range(3):
            await asyncio.sleep(HOLD_S - 20)
            held = task.agent.protected
            await asyncio.sleep(30)
            assert (held, task.agent.protected) == (True, False)
            await asyncio.sleep(GAP_S - 10)
        released = task.agent.times(protect=False)
    assert [later - earlier for earlier, later in pairwise(released[:3])] == pytest.approx(
        [HOLD_S + GAP_S] * 2, abs=5
    )


@pytest.mark.looptime
async def test_a_release_that_fails_is_tried_again_within_the_gap() -> None:
    async with running() as task:
        task.busy = True
        await asyncio.sleep(HOLD_S - 2)
        task.agent.fault = (500, "")
        await asyncio.sleep(10)
        task.agent.fault = WORKING
        await asyncio.sleep(20)
        assert not task.agent.protected


@pytest.mark.looptime
async def test_a_long_job_is_protected_all_the_time_through_outages_of_four_minutes() -> None:
    async with running() as task:
        task.busy = True
        for _ in range(10):
            await asyncio.sleep(RENEW_S - 10)
            task.agent.fault = (503, "")
            await asyncio.sleep(240)
            task.agent.fault = WORKING
            await asyncio.sleep(60)
            assert task.agent.protected
    assert task.agent.lapses == 0


@pytest.mark.looptime
@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS.keys())
async def test_an_outage_is_reported_once_and_asked_through_ever_less_often(fault: Fault) -> None:
    async with running() as task:
        task.agent.fault = fault
        task.busy = True
        await asyncio.sleep(1000)
        assert len(task.faults) == 1
        waits = [later - earlier for earlier, later in pairwise(task.agent.times(protect=True))]
        assert waits[0] <= REQUEST_S + 4
        assert all(30 <= wait <= 60 + REQUEST_S + 2 for wait in waits[10:])
        task.agent.fault = WORKING
        await asyncio.sleep(70)
        assert task.agent.protected
        assert len(task.faults) == 1
        task.agent.fault = fault
        await asyncio.sleep(1000)
        assert len(task.faults) == 2


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("fault", "report"),
    [
        ("nobody listens", "the ECS agent could not be reached: connection refused"),
        ("it hangs", "the ECS agent did not answer within 5 s"),
        ("refused by ECS", "ECS refused: TASK_NOT_VALID: no service"),
        ("refused without detail", "ECS refused: DEPLOYMENT_BLOCKED: no detail"),
        ("no permission", "HTTP 400: AccessDeniedException: no"),
        ("throttled", "HTTP 429, and no confirmation that the protection is on"),
        ("no object", "HTTP 200, and no confirmation that the protection is on"),
    ],
)
async def test_a_report_says_what_the_agent_or_ecs_had_against_it(fault: str, report: str) -> None:
    async with running() as task:
        task.agent.fault = REFUSALS[fault]
        await task.works(20)
    assert task.faults == [report]


@pytest.mark.looptime
async def test_what_was_asked_for_without_an_answer_is_released_as_well() -> None:
    async with running() as task:
        task.agent.fault = None
        await task.works(10)
        task.agent.fault = WORKING
        task.agent.protected_until = 600  # the request had got through
        await asyncio.sleep(120)
        assert not task.agent.protected
    assert len(task.agent.times(protect=False)) == 1


@pytest.mark.looptime
async def test_what_has_run_out_by_itself_is_not_released() -> None:
    async with running() as task:
        await task.works(1)
        task.agent.fault = (500, "")
        await asyncio.sleep(EXPIRES_MIN * 60)
        asked = len(task.agent.asked)
        await asyncio.sleep(3600)
    assert len(task.agent.asked) == asked


@pytest.mark.looptime
async def test_the_end_releases_the_protection_of_a_job_that_was_running() -> None:
    async with running() as task:
        task.busy = True
        await asyncio.sleep(10)
    assert not task.agent.protected
    assert [enabled for _, enabled in task.agent.asked] == [True, False]


@pytest.mark.looptime
async def test_the_end_waits_no_longer_than_two_seconds_for_the_release() -> None:
    async with running() as task:
        await task.works(10)
        task.agent.fault = None
        closing_at = task.agent.clock.monotonic()
    assert task.agent.clock.monotonic() == closing_at + CLOSE_S
    assert task.faults == ["the ECS agent did not answer within 2 s"]


@pytest.mark.looptime
async def test_the_end_does_not_wait_for_a_request_that_hangs() -> None:
    async with running() as task:
        task.agent.fault = None
        await task.works(2)  # the request is under way
        closing_at = task.agent.clock.monotonic()
    assert task.agent.clock.monotonic() == closing_at + CLOSE_S


@pytest.mark.looptime
async def test_a_fault_in_the_protection_itself_is_logged_and_ends_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> bool:
        raise LookupError("a mistake")

    protection = ScaleInProtection(
        ENDPOINT,
        busy=broken,
        clock=LoopClock(),
        rng=random.Random(1),  # noqa: S311 - spreads retries
        on_fault=print,
    )
    async with protecting(protection):
        await asyncio.sleep(10)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "a mistake" in caplog.text


@pytest.mark.parametrize("environ", [{}, {"ECS_AGENT_URI": ""}])
async def test_outside_of_ecs_there_is_no_protection(environ: dict[str, str]) -> None:
    assert _from_env(environ) is None
    async with protecting(None):
        pass


# --- over a real connection ----------------------------------------------------------------------


@asynccontextmanager
async def serving(handle: Callable[[web.Request], web.Response]) -> AsyncIterator[str]:
    """Serve HTTP on this machine, at the agent's path."""

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return handle(request)

    application = web.Application()
    application.router.add_route("*", "/api/task/task-protection/v1/state", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/api/task"
    finally:
        await runner.cleanup()


async def test_the_request_on_the_wire_is_the_one_that_aws_describes() -> None:
    seen: list[tuple[str, str, bytes]] = []

    def handle(request: web.Request) -> web.Response:
        seen.append((request.method, request.content_type, request._read_bytes or b""))
        return web.json_response({"protection": {"ProtectionEnabled": True}})

    async with serving(handle) as endpoint:
        protection = _from_env({"ECS_AGENT_URI": endpoint})
        assert protection is not None
        status, answer = await put_json(
            protection._url, {"ProtectionEnabled": True, "ExpiresInMinutes": 10}
        )
    [(method, content_type, body)] = seen
    assert (method, content_type) == ("PUT", "application/json")
    assert json.loads(body) == {"ProtectionEnabled": True, "ExpiresInMinutes": 10}
    assert status == 200
    assert json.loads(answer) == {"protection": {"ProtectionEnabled": True}}


async def test_the_status_and_the_body_of_a_refusal_come_through() -> None:
    def handle(_request: web.Request) -> web.Response:
        return web.Response(status=429, text="slow down")

    async with serving(handle) as endpoint:
        assert await put_json(_url(endpoint), {}) == (429, b"slow down")


async def test_a_redirect_is_not_followed() -> None:
    def handle(_request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "http://127.0.0.1:1/"})

    async with serving(handle) as endpoint:
        assert (await put_json(_url(endpoint), {}))[0] == 307


async def test_an_agent_that_is_gone_is_an_os_error() -> None:
    async with serving(lambda _request: web.Response()) as endpoint:
        pass
    with pytest.raises(OSError, match="onnect"):
        await put_json(_url(endpoint), {})


async def test_an_agent_that_hangs_up_is_an_os_error() -> None:
    def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serving(handle) as endpoint:
        with pytest.raises(OSError, match=r"."):
            await put_json(_url(endpoint), {})


async def test_an_endpoint_that_is_no_url_is_an_os_error() -> None:
    with pytest.raises(OSError, match="not-a-url"):
        await put_json(_url("not-a-url"), {})


def _url(endpoint: str) -> str:
    return f"{endpoint}/task-protection/v1/state"


def _from_env(environ: Mapping[str, str]) -> ScaleInProtection | None:
    return ScaleInProtection.from_env(
        environ,
        busy=lambda: False,
        clock=LoopClock(),
        rng=random.Random(1),  # noqa: S311 - spreads retries
        on_fault=print,
    )


# --- ECS's stop timeout --------------------------------------------------------------------------


def test_the_default_drain_fits_into_the_default_stop_timeout_of_ecs() -> None:
    assert bound_s(WorkerSettings().drain, 30) == WorkerSettings().drain.total_seconds()


def test_without_a_stop_timeout_the_drain_is_what_was_asked_for() -> None:
    assert bound_s(timedelta(hours=1), None) == 3600


@given(drain=st.floats(0, 1e6), stop_timeout_s=st.floats(0.001, 1e6))
def test_the_bound_exceeds_neither_the_drain_nor_what_the_stop_timeout_leaves(
    drain: float, stop_timeout_s: float
) -> None:
    asked = timedelta(seconds=drain)
    bound = bound_s(asked, stop_timeout_s)
    assert 0 <= bound <= asked.total_seconds()
    assert bound == asked.total_seconds() or bound == max(0.0, stop_timeout_s - 8)
