"""Strange texts on the command line: whatever is stored, a terminal is told texts and no more.

Everything that a command shows was written by somebody else: senders, whoever may write items or
schedules, handlers. Each text among it may hold what a terminal obeys, or what rich takes for
markup.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hostile.examples import EXAMPLES
from tests.hostile.spoiled_shop import OBEYED, Shop
from tests.support.command_line import CommandLine, Ended

COMMANDS = (
    "jobs list",
    "jobs list --state dead",
    "jobs count",
    "jobs show {job}",
    "queues list",
    "workers list --jobs",
    "dead-letters list",
    "dead-letters count",
    "dead-letters show {dead}",
    "dead-letters replays",
    "dead-letters copies",
    "schedules list",
    "schedules next",
    "schedules runs nightly",
    "health",
    "audit",
)


def _printed(ended: Ended) -> Sequence[str]:
    return [line for text in (ended.out, ended.err) for line in text.split("\n")]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.delenv("HEADGATE_APP", raising=False)
    return CommandLine(monkeypatch, capsys)


@settings(
    max_examples=max(3, EXAMPLES // len(COMMANDS)),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@pytest.mark.timeout(max(300, EXAMPLES))
@given(seed=st.integers(0, 2**32), as_json=st.booleans())
def test_whatever_is_stored_no_command_breaks_or_speaks_to_the_terminal(
    seed: int, as_json: bool, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop()
    shop.spoil(random.Random(seed))  # noqa: S311 - spoils texts
    module = ModuleType("hostile_shop")
    vars(module)["app"] = shop.app
    monkeypatch.setitem(sys.modules, "hostile_shop", module)
    monkeypatch.setattr("headgate.jobs.client.client.Client", shop.client)
    for command in COMMANDS:
        words = command.format(job=shop.job, dead=shop.dead).split()
        ended = run(*words, *(["--json"] if as_json else []), app="hostile_shop:app")
        assert "Traceback" not in ended.err, (words, ended.err)
        assert [line for line in _printed(ended) if OBEYED.search(line)] == [], words
        assert not any(line.startswith("headgate: forged") for line in _printed(ended)), words
        if as_json and ended.out:
            json.loads(ended.out)
