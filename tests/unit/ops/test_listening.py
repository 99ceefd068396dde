"""Ports of servers of pages."""

from __future__ import annotations

import pytest

from headgate.errors import ConfigurationError
from headgate.ops.listening import listen, listen_nearby, url_of


def test_a_port_that_is_taken_is_said_to_be_in_one_clause() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError) as raised:
            listen("127.0.0.1", port)
    assert str(raised.value) == (
        f"the console can't listen on 127.0.0.1:{port}: Address already in use. Another --port may "
        "be free; --port 0 finds one"
    )


def test_a_host_that_nobody_has_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"can't listen on nobody\.invalid:0: \w+"):
        listen("nobody.invalid", 0)


def test_a_taken_port_is_left_to_its_owner_and_another_one_is_found() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with listen_nearby("127.0.0.1", port) as found:
            assert found.getsockname()[1] != port
            assert url_of(found) == f"http://localhost:{found.getsockname()[1]}/"
