"""A spool in a folder of its own, for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.jobs.client.spool.file import SpoolFile
from tests.support.spool_bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def file(bench: Bench) -> Iterator[SpoolFile]:
    opened = bench.open()
    yield opened
    opened.close()
