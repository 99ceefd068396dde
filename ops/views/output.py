"""Printing, for all commands.

Texts may come from anyone who can submit a job: an id, a tenant, an error's message. They are
printed as they stand, and never read as markup; characters that a terminal obeys are escaped.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Collection
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from headgate.jobs.values.texts import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Frame
    from rich.text import Text

_HEADING = 8
"""Columns of a heading's line, in a table that is too wide for the terminal."""

_UNBOUNDED = 10_000
"""Columns of an output that is no terminal: its reader is a program, which wraps nothing."""


def show(text: str = "", *, at_once: bool = False) -> None:
    """Print a text, which may have several lines; ``at_once`` leaves none of it in a buffer."""
    print(printable(text), flush=at_once)


def show_error(text: str) -> None:
    """Print one line about a failure on standard error."""
    print(f"headgate: {in_line(text)}", file=sys.stderr)


def show_traceback(error: BaseException) -> None:
    """Print the traceback of an error that nobody foresaw on standard error."""
    print(printable("".join(traceback.format_exception(error))), file=sys.stderr, end="")


def show_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value as one JSON document, in ASCII.

    Times are written in ISO 8601, durations too, and enumerations as their values.
    """
    print(json.dumps(to_jsonable_python(value), indent=indent))


def in_line(text: str) -> str:
    """Return a text that takes one line, with its line breaks escaped."""
    return printable(text).replace("\n", "\\n")


class TextTable:
    """Rows under headings, in a frame.

    Args:
        columns: the headings.
        right: those whose cells are numbers, aligned to the right.
        whole: those whose cells are ids and names, which one types again: others are broken first.
        title: a line above.
    """

    def __init__(
        self,
        *columns: str,
        right: Collection[str] = (),
        whole: Collection[str] = (),
        title: str = "",
    ) -> None:
        from rich.table import Table  # slow to import, and few commands draw one

        self._frame = Table(title=_text(title) if title else None)
        self._headings = columns
        self._whole = whole
        self._longest_name = 0
        for each in columns:
            self._frame.add_column(
                _text(each),
                justify="right" if each in right else "left",
                overflow="fold",
                no_wrap=each in whole,
            )

    def row(self, *cells: str) -> None:
        """Add a row."""
        self._longest_name = max(self._longest_name, len(cells[0]))
        self._frame.add_row(*map(_text, cells))

    def section(self) -> None:
        """Draw a line below the last row."""
        self._frame.add_section()

    def frame(self, console: Console) -> Frame:
        """Return the table as rich draws it; its headings are broken before any cell is.

        No cell is cut short. Those of the first column, names that are typed into the next command,
        are broken only if they take more than half of the line.
        """
        from rich.text import Text

        unbounded = console.options.update(width=_UNBOUNDED)
        if console.measure(self._frame, options=unbounded).maximum > console.width:
            for column, heading in zip(self._frame.columns, self._headings, strict=True):
                lines = wrap(heading, _HEADING, break_long_words=False)
                column.header = Text("\n").join(map(_text, lines))
            is_short = self._longest_name <= console.width // 2
            self._frame.columns[0].no_wrap = is_short or self._headings[0] in self._whole
        return self._frame

    def show(self) -> None:
        """Print the table, as wide as it is unless a terminal is narrower."""
        from rich.console import Console

        bounded = sys.stdout.isatty() or "COLUMNS" in os.environ
        console = Console(width=None if bounded else _UNBOUNDED)
        console.print(self.frame(console))


def _text(text: str) -> Text:
    from rich.text import Text  # in one of these no markup is looked for

    return Text(in_line(text))
