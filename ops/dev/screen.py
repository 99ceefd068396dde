"""The one screen of `headgate dev`: what happens, line by line, and below it the state of all."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headgate.ops.dev.board import Board, Said, Style

_STYLES: dict[Style, str] = {
    "plain": "",
    "good": "green",
    "bad": "red",
    "warning": "yellow",
    "faint": "dim",
}
_NUMBERS = ("running", "completed", "retried", "dead")


class Screen:
    """Prints lines, and on a terminal keeps a table of the job types below them.

    Args:
        console: where it draws.
        board: the state to show.
    """

    def __init__(self, console: Console, board: Board) -> None:
        self._console = console
        self._board = board
        self._facts: list[tuple[str, str]] = []
        self._live = (
            Live(console=console, auto_refresh=False, transient=True)
            if console.is_terminal
            else None
        )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, said: Said) -> None:
        """Print a text, with the time before its first line."""
        now = Text(f"{datetime.now().astimezone():%H:%M:%S} ", style="dim")
        self._console.print(
            now + Text(said.text, style=_STYLES[said.style]), soft_wrap=True, highlight=False
        )

    def say_as_it_is(self, text: str) -> None:
        """Print a text that is to be copied."""
        self._console.print(Text(text), soft_wrap=True, highlight=False)

    def keep_in_sight(self, facts: Iterable[tuple[str, str]]) -> None:
        """Show these lines below what happens: a name and a text each."""
        self._facts = list(facts)
        if self._live is None:
            for name, text in self._facts:
                self.say_as_it_is(f"{name}: {text}")
        self.draw()

    def draw(self) -> None:
        """Draw the board as it is now."""
        if self._live is not None:
            self._live.update(self._view(), refresh=True)

    def _view(self) -> RenderableType:
        title = Text.assemble((self._board.app or "headgate dev", "bold"), f"  {self._board.state}")
        parts: list[RenderableType] = [Text(""), title]
        parts += [Text(f"{name:9} {text}", style="dim", no_wrap=True) for name, text in self._facts]
        if self._board.tallies:
            parts.append(_table(self._board))
        parts.append(Text("Ctrl-C ends it", style="dim"))
        return Group(*parts)


def _table(board: Board) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("job type")
    for name in _NUMBERS:
        table.add_column(name, justify="right")
    table.add_column("next")
    for name, tally in board.tallies.items():
        due = board.schedules.get(name)
        table.add_row(
            Text(name),
            str(len(tally.running) or ""),
            str(tally.completed or ""),
            str(tally.retried or ""),
            Text(str(tally.dead or ""), style="red"),
            "" if due is None else f"{due.astimezone():%d %b %H:%M}",
        )
    return table
