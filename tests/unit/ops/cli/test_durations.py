"""Durations on the command line."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
import typer

from headgate.ops.cli.durations import duration, in_words
from headgate.workers.configuration import DEFAULTS
from tests.support.command_line import CommandLine


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        ("250ms", timedelta(milliseconds=250)),
        ("2d", timedelta(days=2)),
        ("0s", timedelta(0)),
    ],
)
def test_a_duration_is_read_by_its_units(text: str, expected: timedelta) -> None:
    assert duration(text) == duration(expected) == expected


@pytest.mark.parametrize(
    "text",
    ["", "22", "90", "0:00:22", "1 h", "-5s", "5 s", "5 minutes", "h", "1h-", "1e3s", "\u0662s"],
)
def test_what_is_no_duration_is_refused_with_one_that_is(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a duration: write 90s, 15m, 1h or 1h30m"):
        duration(text)


def test_a_duration_beyond_all_bounds_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="is too long a duration"):
        duration("9" * 30 + "d")


@pytest.mark.parametrize("text", ["22s", "2m", "90m", "1h", "3d", "250ms", "0d"])
def test_a_duration_in_words_is_read_as_it_was_said(text: str) -> None:
    assert duration(in_words(duration(text))) == duration(text)


def test_a_default_is_shown_as_its_option_takes_it(headgate: CommandLine) -> None:
    said = " ".join(headgate("worker", "--help").out.split())
    for option, default in (("drain", DEFAULTS.drain), ("queue-grace", DEFAULTS.queue_grace)):
        found = re.search(rf"--{option} DURATION .*?\[default: (.*?)\]", said)
        assert found is not None
        assert duration(found[1]) == default
