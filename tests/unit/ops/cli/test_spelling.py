"""Command lines in an older or a near spelling."""

from __future__ import annotations

import pytest

from headgate.ops.cli.spelling import rewritten
from tests.support.command_line import CommandLine

APP = "shop.app:app"


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["status", APP, "ID"], ["-A", APP, "jobs", "show", "ID"]),
        (["status", "ID"], ["jobs", "show", "ID"]),
        (["schedules", APP, "ls"], ["-A", APP, "schedules", "list"]),
        (["schedules", "ls", "--json"], ["schedules", "list", "--json"]),
        (["submit", APP, "nightly"], ["-A", APP, "submit", "nightly"]),
        (["check", APP], ["-A", APP, "check"]),
        (["jobs", "show", "ID", "-A", APP], ["-A", APP, "jobs", "show", "ID"]),
        (["worker", "--app", APP], ["-A", APP, "worker"]),
    ],
    ids=" ".join,
)
def test_a_known_mistake_is_written_right(words: list[str], right: list[str]) -> None:
    assert rewritten(words, app=None) == right


def test_the_app_that_was_named_in_its_place_stays_there() -> None:
    assert rewritten(["status", "ID"], app=APP) == ["-A", APP, "jobs", "show", "ID"]


@pytest.mark.parametrize(
    "words",
    [
        ["worker", APP],
        ["jobs", "show", "ID"],
        ["submit", "nightly", "--", "-A", "x"],
        ["submit", "nightly", '{"at": "12:30"}'],
        ["schedules", "run", "a:b"],
        ["plan"],
        ["plan", "-A"],
    ],
    ids=" ".join,
)
def test_what_may_be_right_is_left_alone(words: list[str]) -> None:
    assert rewritten(words, app=APP) is None


def test_the_answer_is_the_line_to_write(headgate: CommandLine) -> None:
    ended = headgate("submit", APP, "send-email", '{"to": "ada"}')
    assert (ended.code, ended.out) == (2, "")
    right = f'headgate -A {APP} submit send-email \'{{"to": "ada"}}\''
    assert ended.err.endswith(f"Error: write this as: {right}\n")
