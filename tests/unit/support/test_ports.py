"""Ports that tests count on: nobody takes them by chance."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.support.ports import NOBODY_LISTENS, reserved_ports


async def test_a_server_can_listen_on_a_reserved_port_and_nobody_else_is_given_it() -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    with reserved_ports(2) as first:
        for port in (first, first + 1):
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port))
            async with await asyncio.start_server(hang_up, "127.0.0.1", port):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                assert await reader.read() == b""
                writer.close()
                await writer.wait_closed()


@pytest.mark.parametrize("is_reserved", [True, False])
def test_connections_are_refused_where_nobody_listens(is_reserved: bool) -> None:
    with reserved_ports() as reserved, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", reserved if is_reserved else NOBODY_LISTENS))
