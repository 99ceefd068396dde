"""An HTTP proxy in front of a local SQS that counts requests, and misbehaves when told to.

::

    async with Proxy(server) as proxy:
        proxy.inject(Refuse(status=503, code="ServiceUnavailable"), times=2)
        worker = await stage.worker("steady", endpoint_url=proxy.endpoint_url)

It reads SQS's JSON protocol: the action stands in the header ``X-Amz-Target``, and an entry of a
batch goes by its ``Id``.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-making-api-requests-json.html
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self, assert_never

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web

_LOOPBACK = "127.0.0.1"
_CONTENT_TYPE = "application/x-amz-json-1.0"
_GENEROUS_S = 60.0
_SHUTDOWN_S = 0.01  # long polls under way are cut; 0 would let them return
_LARGEST = 4 << 20  # SQS's largest batch is 1 MiB
_HOP_BY_HOP = {"connection", "content-length", "keep-alive", "transfer-encoding"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Answer with an error, without asking the server."""

    status: int
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Close the connection instead of answering."""

    forward: bool
    """Whether the server has carried the request out by then, so that only its answer is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Hold the server's answer back for so long."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Hold the server's answer back until ``release`` is set."""

    release: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailEntries:
    """Report entries of a batch as failed, without handing them to the server."""

    every: int = 2
    """1 fails all of them, 2 the first, third, fifth and so on."""
    code: str = "InternalError"
    sender_fault: bool = False


Fault = Refuse | Drop | Delay | Hold | FailEntries

THROTTLED = Refuse(status=HTTPStatus.BAD_REQUEST, code="ThrottlingException")
BROKEN = Refuse(status=HTTPStatus.INTERNAL_SERVER_ERROR, code="InternalFailure")


@dataclass(slots=True, eq=False)
class _Injection:
    """A fault, which requests it hits, and how many more."""

    fault: Fault
    actions: frozenset[str]
    """Empty: all."""
    left: float

    def takes(self, action: str) -> bool:
        """Whether the fault hits this request; counts it."""
        if self.left < 1 or (self.actions and action not in self.actions):
            return False
        self.left -= 1
        return True


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Proxy:
    """Passes requests on to ``target``, apart from what is injected.

    Args:
        target: the server's URL.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._injections: list[_Injection] = []
        self._changed = asyncio.Condition()
        self.requests: Counter[str] = Counter()
        """How many requests have come, by action; repetitions by the client included."""
        self.faults: Counter[str] = Counter()
        """How many of them were hit by an injected fault."""
        self.forwarded: Counter[str] = Counter()
        """How many the server has answered, whatever became of the answer."""

    async def __aenter__(self) -> Self:
        connector = TCPConnector(limit=0)
        self._session = ClientSession(
            connector=connector, timeout=ClientTimeout(), auto_decompress=False
        )
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_S
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, _LOOPBACK, 0).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()
        await self._session.close()

    @property
    def endpoint_url(self) -> str:
        """What ``AWS_ENDPOINT_URL`` takes."""
        return f"http://{_LOOPBACK}:{self._runner.addresses[0][1]}"

    def inject(
        self, fault: Fault, *, actions: Iterable[str] = (), times: float = float("inf")
    ) -> None:
        """Do this to the next ``times`` requests of these actions, or of all.

        Of several faults that fit a request the one injected first takes it.
        """
        self._injections.append(_Injection(fault, frozenset(actions), times))

    def heal(self) -> None:
        """Misbehave no more."""
        self._injections.clear()

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait until the counts are as wanted.

        Raises:
            TimeoutError: they did not become so.
        """
        async with asyncio.timeout(_GENEROUS_S), self._changed:
            await self._changed.wait_for(happened)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        action = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        fault = next((each.fault for each in self._injections if each.takes(action)), None)
        await self._count(self.requests, action)
        if fault is not None:
            await self._count(self.faults, action)
        answer = await self._answer(request, action, await request.read(), fault)
        if answer is None:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)

    async def _answer(
        self, request: web.Request, action: str, body: bytes, fault: Fault | None
    ) -> _Answer | None:
        """The answer to give; None drops the connection."""
        match fault:
            case None:
                return await self._forward(request, action, body)
            case Refuse():
                return _refusal(fault)
            case Drop(forward=forward):
                if forward:
                    await self._forward(request, action, body)
                return None
            case Delay(seconds=seconds):
                answer = await self._forward(request, action, body)
                await asyncio.sleep(seconds)
                return answer
            case Hold(release=release):
                answer = await self._forward(request, action, body)
                await release.wait()
                return answer
            case FailEntries():
                return await self._forward_in_part(request, action, body, fault)
            case _:
                assert_never(fault)

    async def _forward(self, request: web.Request, action: str, body: bytes) -> _Answer | None:
        url = f"{self._target}{request.path_qs}"
        headers = _passed_on(request.headers)
        try:
            async with self._session.request(
                request.method, url, headers=headers, data=body
            ) as response:
                answer = _Answer(
                    response.status, _passed_on(response.headers), await response.read()
                )
        except ClientError:
            return None  # the server has gone: so does the client's connection
        await self._count(self.forwarded, action)
        return answer

    async def _forward_in_part(
        self, request: web.Request, action: str, body: bytes, fault: FailEntries
    ) -> _Answer | None:
        batch = json.loads(body)
        entries = batch["Entries"]
        failed = entries[:: fault.every]
        batch["Entries"] = [entry for entry in entries if entry not in failed]
        result: dict[str, Any] = {}
        if batch["Entries"]:
            answer = await self._forward(request, action, json.dumps(batch).encode())
            if answer is None or answer.status != HTTPStatus.OK:
                return answer
            result = json.loads(answer.body)
        result["Failed"] = [*result.get("Failed", ()), *(_failure(each, fault) for each in failed)]
        return _json(HTTPStatus.OK, {"Successful": [], **result})

    async def _count(self, counter: Counter[str], action: str) -> None:
        async with self._changed:
            counter[action] += 1
            self._changed.notify_all()


def _passed_on(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


def _failure(entry: dict[str, Any], fault: FailEntries) -> dict[str, Any]:
    return {
        "Id": entry["Id"],
        "SenderFault": fault.sender_fault,
        "Code": fault.code,
        "Message": "injected by the proxy",
    }


def _refusal(fault: Refuse) -> _Answer:
    error = {"__type": f"com.amazonaws.sqs#{fault.code}", "message": "injected by the proxy"}
    return _json(fault.status, error)


def _json(status: int, body: dict[str, Any]) -> _Answer:
    return _Answer(status, {"Content-Type": _CONTENT_TYPE}, json.dumps(body).encode())
