"""ECS scale-in protection for a task whose jobs would not end in time.

A deploy waits for protected tasks too, so with a protection that lasted as long as there is any
work no deploy of a busy service would end. Hence it covers only jobs that draining may have to cut,
and not for ever: see `HOLD_S`.
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-scale-in-protection.html

The protection is requested from the endpoint of the container's own agent, for a short time that is
extended while such jobs run. A worker that dies thus leaves its task protected for minutes, not
hours.
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-scale-in-protection-endpoint.html
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import NoReturn

from headgate.jobs.core.clock import Clock
from headgate.jobs.retry.backoff import Backoff
from headgate.jobs.values.own_log import OwnLog
from headgate.workers.background import beside
from headgate.workers.shutdown import CLEAN_UP_S, FLUSH_S

_log = OwnLog("headgate.ecs")

VARIABLE = "ECS_AGENT_URI"
"""The variable with the agent's address; ECS sets it in every container."""

_PATH = "/task-protection/v1/state"

EXPIRES_MIN = 10
"""Minutes that a protection lasts. ECS accepts 1 to 2,880."""

RENEW_S = EXPIRES_MIN * 60 / 2
"""Time after which it is extended: the other half is left for attempts that fail."""

IDLE_S = 30.0
"""Time without long jobs after which it is released, so that it does not flap."""

HOLD_S = 3600.0
"""Longest continuous protection, since CloudFormation gives a service three hours to deploy."""

GAP_S = 60.0
"""Time for which it is then released, so that ECS can stop the task if it has to."""

LOOK_S = 1.0
"""Seconds between checks for long jobs."""

REQUEST_S = 5.0
"""Timeout of one request; the agent itself gives ECS a few seconds."""

CLOSE_S = 2.0
"""Timeout of the release at the end."""

_RETRIES = Backoff.exponential(base=2, cap=60, jitter="equal")

_SETTLE_S = CLEAN_UP_S + FLUSH_S + FLUSH_S
"""Longest time to stop after the drain: interrupted handlers, settlements, then all else."""

Put = Callable[[str, Mapping[str, object]], Awaitable[tuple[int, bytes]]]
"""Sends JSON to a URL with PUT; returns the status and the body, or raises OSError."""


async def put_json(url: str, body: Mapping[str, object]) -> tuple[int, bytes]:
    """Send a PUT request with aiohttp, without keep-alive: requests are minutes apart.

    Raises:
        OSError: there was no answer.
    """
    import aiohttp

    try:
        async with (
            aiohttp.ClientSession() as session,
            session.put(url, json=body, allow_redirects=False) as response,
        ):
            return response.status, await response.read()
    except aiohttp.ClientError as error:
        raise ConnectionError(str(error) or type(error).__name__) from error


class ScaleInProtection:
    """Protects the ECS task from being scaled in while long jobs run.

    It never delays jobs: they start before the protection is confirmed, and run without it if it
    can't be had.

    Args:
        endpoint: the agent's address, from ``ECS_AGENT_URI``.
        busy: returns True while jobs run that may outlast draining; called every second.
        clock: tells the time.
        rng: adds jitter to retries.
        on_fault: called with the reason why the protection can't be changed, once until a request
            succeeds again.
        http: sends the requests.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        busy: Callable[[], bool],
        clock: Clock,
        rng: random.Random,
        on_fault: Callable[[str], None],
        http: Put = put_json,
    ) -> None:
        self._url = endpoint.rstrip("/") + _PATH
        self._busy = busy
        self._clock = clock
        self._rng = rng
        self._on_fault = on_fault
        self._http = http
        self._busy_until = float("-inf")
        """Time at which it will have been idle for long enough."""
        self._held_until = float("-inf")
        """Latest time at which the task may still be protected, by the requests sent."""
        self._held_since: float | None = None
        """Time from which on the protection has been wanted without a gap."""
        self._gap_until = float("-inf")
        self._next_request = float("-inf")
        """Time to extend the protection, or to try again."""
        self._retries: Iterator[float] | None = None
        """The delays of retries while a fault lasts."""

    @classmethod
    def from_env(
        cls,
        environ: Mapping[str, str],
        *,
        busy: Callable[[], bool],
        clock: Clock,
        rng: random.Random,
        on_fault: Callable[[str], None],
    ) -> ScaleInProtection | None:
        """Return the protection of this process's task; None outside of ECS."""
        if not (endpoint := environ.get(VARIABLE)):
            return None
        return cls(endpoint, busy=busy, clock=clock, rng=rng, on_fault=on_fault)

    async def run(self) -> NoReturn:
        """Hold the protection while long jobs run, until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(LOOK_S)

    async def close(self) -> None:
        """Release the protection, within 2 s. Cancel `run` before."""
        if self._may_be_held:
            await self._request(protect=False, bound_s=CLOSE_S)

    @property
    def _may_be_held(self) -> bool:
        return self._clock.monotonic() < self._held_until

    async def _look(self) -> None:
        now = self._clock.monotonic()
        if self._busy():
            self._busy_until = now + IDLE_S
        wanted = self._is_wanted(now)
        if (wanted or self._may_be_held) and now >= self._due(wanted=wanted):
            await self._request(protect=wanted, bound_s=REQUEST_S)

    def _is_wanted(self, now: float) -> bool:
        if now < self._gap_until or now >= self._busy_until:
            self._held_since = None
            return False
        if self._held_since is None:
            self._held_since = now
        if now - self._held_since < HOLD_S:
            return True
        self._gap_until = now + GAP_S
        return False

    def _due(self, *, wanted: bool) -> float:
        """Return the time of the next request; a release need not wait for the next extension."""
        return self._next_request if wanted or self._retries is not None else float("-inf")

    async def _request(self, *, protect: bool, bound_s: float) -> None:
        asked_at = self._clock.monotonic()
        if protect:  # already now: the answer may be lost
            self._held_until = asked_at + EXPIRES_MIN * 60
        fault = await self._ask(protect=protect, bound_s=bound_s)
        if fault is not None:
            self._failed(fault)
            return
        if self._retries is not None:
            _log.info("scale-in protection works again")
            self._retries = None
        self._next_request = asked_at + RENEW_S if protect else float("-inf")
        if not protect:
            self._held_until = float("-inf")

    def _failed(self, fault: str) -> None:
        if self._retries is None:
            self._retries = _RETRIES.delays(self._rng)
            self._on_fault(fault)
        self._next_request = self._clock.monotonic() + next(self._retries)

    async def _ask(self, *, protect: bool, bound_s: float) -> str | None:
        """Send one request; return the reason why it failed, or None."""
        body: dict[str, object] = {"ProtectionEnabled": protect}
        if protect:
            body["ExpiresInMinutes"] = EXPIRES_MIN
        try:
            async with asyncio.timeout(bound_s):
                status, answer = await self._http(self._url, body)
        except TimeoutError:
            return f"the ECS agent did not answer within {bound_s:g} s"
        except OSError as error:
            return f"the ECS agent could not be reached: {error}"
        return _fault_in(status, answer, protect=protect)


def _fault_in(status: int, answer: bytes, *, protect: bool) -> str | None:
    """Read the agent's answer; return the fault in it, or None.

    ECS's own refusals come with status 200 as ``failure``, everything else as ``error``.
    https://github.com/aws/amazon-ecs-agent/blob/master/ecs-agent/tmds/handlers/taskprotection/v1/types/types.go
    """
    said: object = None
    with suppress(ValueError):  # a proxy's page, for example: only the status is known then
        said = json.loads(answer)
    match said:
        case {"failure": {"Reason": reason, **more}}:
            return f"ECS refused: {reason}: {more.get('Detail') or 'no detail'}"
        case {"error": {"Code": code, **more}}:
            return f"HTTP {status}: {code}: {more.get('Message') or 'no message'}"
        case {"protection": {"ProtectionEnabled": enabled}} if enabled is protect:
            return None
    return f"HTTP {status}, and no confirmation that the protection is {'on' if protect else 'off'}"


@asynccontextmanager
async def protecting(protection: ScaleInProtection | None) -> AsyncIterator[None]:
    """Run a protection beside the block, and release it at the end; None does nothing.

    If it fails by a fault of its own, that is logged, and the block continues.
    """
    if protection is None:
        yield
        return
    async with beside(protection.run(), name="scale-in protection"):
        yield
    await protection.close()


def bound_s(drain: timedelta, stop_timeout_s: float | None) -> float:
    """Return the seconds for which jobs may continue after SIGTERM.

    That is ``drain``, or less if ECS would kill the container before the last settlements.

    Args:
        drain: the configured time.
        stop_timeout_s: the seconds after which ECS kills the container; None if nothing kills it.
    """
    if stop_timeout_s is None:
        return drain.total_seconds()
    return max(0.0, min(drain.total_seconds(), stop_timeout_s - _SETTLE_S))
