"""Strange files to import: schedules and letters come of them, or typed errors.

A file comes from another place, and somebody may have changed it on the way.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import App, Schedule
from headgate.errors import ConfigurationError, TransportError
from headgate.testing import Harness
from tests.hostile.examples import STORED, fields, hostile
from tests.unit.workers.rig import Note

ODD = STORED | st.sampled_from(
    [
        *("a b", "x" * 200, "../../etc/passwd", "/UTC", "Nowhere/At-all", "UTC\x00", "dynamic."),
        *("cron(99 99 45 13 ? 1800)", "rate(0 minutes)", "rate(1e999 days)", "at(never)"),
        *("at(0001-01-01T00:00:00)", "rate(99999999999 days)", "cron(* * * * ? *)", "daily"),
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "1969-12-31T00:00:00Z"),
    ]
)
FIELDS = ("name", "expression", "timezone", "start", "end", "flexible_minutes", "enabled", "input")


def _shop() -> Harness:
    app = App("shop")
    app.define("send", Note, schedule=Schedule.rate(timedelta(hours=1)))
    return Harness(app)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("schedules")


@pytest.fixture(scope="module")
def exported(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of an export: a declared schedule, and one made at run time."""
    shop = _shop()
    send, every = shop.app.types["send"], Schedule.rate(timedelta(hours=2))
    shop.client.schedules.create("mine", send, Note(), schedule=every)
    shop.client.schedules.export(folder / "exported.jsonl")
    return [json.loads(line) for line in (folder / "exported.jsonl").read_text().splitlines()]


@hostile
@given(
    which=st.integers(0, 1),
    changes=st.dictionaries(st.sampled_from(FIELDS), ODD, min_size=1, max_size=3),
)
def test_any_line_is_a_schedule_or_refused(
    exported: list[dict[str, Any]], folder: Path, which: int, changes: dict[str, Any]
) -> None:
    file = folder / "changed.jsonl"
    file.write_text(json.dumps(exported[which] | changes) + "\n")
    shop = _shop()
    with suppress(ConfigurationError, TransportError):
        shop.client.schedules.import_(file)
    assert shop.client.schedules.list() is not None


LETTER: dict[str, Any] = {
    "queue": "shop-jobs-normal-dlq",
    "message_id": "m-1",
    "sent_at": "2026-01-01T00:00:00+00:00",
    "attributes": {"Reason": "failed"},
    "body": "{}",
}
"""A dead letter as an export writes it."""

ATTRIBUTES = st.dictionaries(
    st.text(max_size=3) | st.just("AWS.x"), st.text(max_size=3), max_size=12
)


@hostile
@given(fields(*LETTER, "group") | st.fixed_dictionaries({"attributes": ATTRIBUTES}), st.booleans())
def test_any_line_is_a_letter_or_refused(
    folder: Path, changes: dict[str, Any], is_whole: bool
) -> None:
    file = folder / "letters.jsonl"
    file.write_text(json.dumps((LETTER if is_whole else {}) | changes) + "\n")
    shop = _shop()
    imported = 0
    with suppress(ConfigurationError, TransportError):
        imported = shop.client.dead_letters.import_(file)
    assert len(shop.sqs.messages(LETTER["queue"])) == imported
