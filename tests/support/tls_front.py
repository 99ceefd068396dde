"""TLS in front of a server that speaks plain HTTP, in a process of its own.

``python -m tests.support.tls_front HOST PORT CERTIFICATE`` prints its address, and passes on bytes
until its input ends. What it adds is its own time, not that of its clients.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.own_server import OwnServer
from tests.support.raw_server import server_context

_CHUNK = 256 * 1024


class TlsFront(OwnServer):
    """TLS in front of the server at ``target``; a context manager.

    Args:
        target: the server's URL.
        certificate: a file with the certificate and its key, as
            `tests.support.raw_server.certificate` writes them.
    """

    def __init__(self, target: str, certificate: Path) -> None:
        address = urlsplit(target)
        where = (str(address.hostname), str(address.port), str(certificate))
        super().__init__(__spec__.name, *where)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, asyncio.CancelledError):
        while some := await reader.read(_CHUNK):
            writer.write(some)
            await writer.drain()
    writer.close()


async def _serve(host: str, port: int, certificate: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        await asyncio.gather(_pump(reader, back), _pump(there, writer))

    context = server_context(certificate)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    own_host, own_port = server.sockets[0].getsockname()
    print(f"https://{own_host}:{own_port}", flush=True)  # noqa: T201 - what the parent reads
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    await commands.read()
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
