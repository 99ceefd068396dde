"""The app of the fixture ``jobs``, and books of their own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.shop.contracts import app
from examples.shop.store import Store, using
from headgate import App


@pytest.fixture
def headgate_app() -> App:
    return app


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Store]:
    with using(tmp_path) as store:
        yield store
