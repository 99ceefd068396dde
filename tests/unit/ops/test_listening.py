"""Ports of servers of pages."""

from __future__ import annotations

from headgate.ops.listening import listen, listen_nearby, url_of


def test_a_taken_port_is_left_to_its_owner_and_another_one_is_found() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with listen_nearby("127.0.0.1", port) as found:
            assert found.getsockname()[1] != port
            assert url_of(found) == f"http://localhost:{found.getsockname()[1]}/"
