"""The screen of `headgate dev`, on a terminal and elsewhere."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime

from rich.console import Console

from headgate.ops.dev.board import Board, Said, TypeCounts
from headgate.ops.dev.screen import Screen


def board() -> Board:
    made = Board()
    made.app, made.state = "shop", "running"
    made.tallies = {
        "send-email": TypeCounts(running={"1"}, completed=12, dead=3),
        "nightly": TypeCounts(),
    }
    made.schedules = {"nightly": datetime(2026, 1, 2, 8, tzinfo=UTC)}
    return made


def drawn(*, terminal: bool) -> str:
    console = Console(file=io.StringIO(), width=80, force_terminal=terminal, color_system=None)
    with Screen(console, board()) as screen:
        screen.keep_in_sight([("local AWS", "http://127.0.0.1:4566")])
        screen.say(Said(text="[bold]no markup[/bold]"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_shows_the_types_below_what_happens() -> None:
    said = drawn(terminal=True)
    for part in ("shop  running", "send-email", "12", "nightly", "Ctrl-C ends it", "4566"):
        assert part in said
    assert max(len(line) for line in re.sub(r"\x1b\[[?\d;]*\w", "", said).splitlines()) <= 80


def test_elsewhere_only_lines_are_printed() -> None:
    said = drawn(terminal=False)
    assert "local AWS: http://127.0.0.1:4566\n" in said
    assert "send-email" not in said


def test_texts_are_never_read_as_markup() -> None:
    assert "[bold]no markup[/bold]" in drawn(terminal=False)
