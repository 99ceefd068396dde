"""Settings of this repository's suite; a project of your own needs none."""

import asyncio


def pytest_configure() -> None:
    # As in tests/conftest.py: looptime asks for the current loop, and would leave one open.
    asyncio.set_event_loop(None)
