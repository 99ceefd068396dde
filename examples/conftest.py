"""What the suite of this repository needs; a project of your own doesn't."""

import asyncio


def pytest_configure() -> None:
    # As in tests/conftest.py: looptime asks for the current loop, and would leave one open.
    asyncio.set_event_loop(None)
