"""A DynamoDB that accepts every write at once and stores nothing, to measure records' own cost.

DynamoDB Local shares the machine's two cores with its clients, and keeps up with a few thousand
items a second at most; a table on AWS takes none of the worker's machine's CPU. `SwallowingTable`
starts ``python -m tests.support.swallowing_table``, which prints its address and, for each line of
input, the number of items it has received.
"""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web

from tests.support.own_server import OwnServer

_LARGEST = 16 * 2**20


class SwallowingTable(OwnServer):
    """Such a table in a process of its own; a context manager."""

    def __init__(self) -> None:
        super().__init__(__spec__.name)

    def items(self) -> int:
        """Return the number of items received so far."""
        self._tell("")
        return int(self._line())


async def _serve() -> None:
    items = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal items
        body = await request.read()
        action = request.headers["X-Amz-Target"].rpartition(".")[2]
        if action == "PutItem" and b"ConditionExpression" not in body:
            items += 1  # a single item; claims are put under a condition
            return web.json_response({})
        if action != "BatchWriteItem":
            return web.json_response({"Items": [], "Count": 0})
        items += body.count(b'"PutRequest"')
        return web.json_response({"UnprocessedItems": {}})

    app = web.Application(client_max_size=_LARGEST)
    app.router.add_post("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    _say(runner.addresses[0])
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    async for _ in commands:
        print(items, flush=True)  # noqa: T201 - what the parent reads
    await runner.cleanup()


def _say(address: tuple[str, int]) -> None:
    host, port = address
    print(f"http://{host}:{port}", flush=True)  # noqa: T201 - what the parent reads


if __name__ == "__main__":
    asyncio.run(_serve())
