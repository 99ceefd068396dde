"""Recognition of a worker's command line, before anything is imported."""

from __future__ import annotations

import pytest

from headgate.workers.process.starting import is_worker


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("worker", True),
        ("worker shop.app:app --processes 2", True),
        ("-A shop.app:app worker", True),
        ("--app shop.app:app worker", True),
        ("--app=shop.app:app worker", True),
        ("-Ashop.app:app worker", True),
        ("-A worker submit worker", False),
        ("submit worker", False),
        ("--help", False),
        ("-A", False),
        ("", False),
    ],
)
def test_a_worker_is_told_from_other_commands(line: str, expected: bool) -> None:
    assert is_worker(line.split()) is expected
