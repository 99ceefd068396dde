"""``python -m tests.support.proxy TARGET``, the command that `ProxyProcess` starts."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable
from typing import Any

from tests.support.proxy.faults import UNAVAILABLE, Fault
from tests.support.proxy.server import Proxy


async def _serve(target: str) -> None:
    """Serve until the input ends, as it does when the parent dies; commands are lines of JSON."""
    rng = random.Random(0)  # noqa: S311 - chooses requests
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    async with Proxy(target) as proxy:
        _say({"endpoint_url": proxy.endpoint_url})
        async for line in commands:
            command = json.loads(line)
            if "latency_s" in command:
                proxy.delay(command["latency_s"])
            if "failing" in command:
                proxy.draw(_failing(rng, command["failing"]))
            _say(proxy.requests)


def _failing(rng: random.Random, share: float) -> Callable[[str], Fault | None]:
    return lambda _action: UNAVAILABLE if rng.random() < share else None


def _say(value: Any) -> None:
    print(json.dumps(value), flush=True)  # noqa: T201 - what the parent reads


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
