"""The demo's output: a live table on a terminal, else a line a second; then the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headgate.jobs.definitions.app import App
from headgate.ops.demo.accounting import Accounting, Requests, Tally, percentile
from headgate.ops.demo.checks import Check

REFRESH_S = 0.1
"""Seconds between two updates of a display."""

_LINE_EVERY_S = 1.0
_BAR = 18
_NUMBER = 5
_COUNTS = ("submitted", "done", "discarded", "retried", "dead")


class Display(Protocol):
    """Shows the demo's progress. ``elapsed_s`` counts from the demo's start."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def stage(self, text: str, elapsed_s: float) -> None:
        """Announce the current stage."""
        ...

    def show(self, accounting: Accounting, elapsed_s: float) -> None:
        """Show the present state of the accounts."""
        ...


def make_display(console: Console, app: App, expected: Mapping[str, int]) -> Display:
    """Return the display that fits the console; ``expected`` is the number of jobs by type."""
    kind = LiveDisplay if console.is_terminal else PlainDisplay
    return kind(console, app, expected)


class LiveDisplay:
    """A table that is redrawn in place, and removed at the end."""

    def __init__(self, console: Console, app: App, expected: Mapping[str, int]) -> None:
        self._app = app
        self._expected = expected
        self._stage = ""
        # Drawn by the event loop alone: a thread of rich's would read accounts while they change.
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def stage(self, text: str, elapsed_s: float) -> None:
        self._stage = text
        self._draw(_title(self._app, text, elapsed_s))

    def show(self, accounting: Accounting, elapsed_s: float) -> None:
        title = _title(self._app, self._stage, elapsed_s)
        self._draw(Group(title, _progress(accounting, self._expected)))

    def _draw(self, view: RenderableType) -> None:
        self._live.update(Padding(view, (1, 1, 0, 1)), refresh=True)


class PlainDisplay:
    """A line a second, for logs and pipes."""

    def __init__(self, console: Console, _app: App, expected: Mapping[str, int]) -> None:
        self._console = console
        self._expected = sum(expected.values())
        self._next_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: there is nothing to restore."""

    def stage(self, text: str, elapsed_s: float) -> None:
        self._print(text, elapsed_s)

    def show(self, accounting: Accounting, elapsed_s: float) -> None:
        if elapsed_s < self._next_s:
            return
        self._next_s = elapsed_s + _LINE_EVERY_S
        tally = accounting.total
        self._print(
            f"submitted {tally.submitted:,}, ended {tally.ended:,} of {self._expected:,}: "
            f"done {tally.done:,}, discarded {tally.discarded:,}, dead {tally.dead.total():,}; "
            f"retried {tally.retried:,}",
            elapsed_s,
        )

    def _print(self, text: str, elapsed_s: float) -> None:
        self._console.print(f"{elapsed_s:5.1f} s  {text}", highlight=False, soft_wrap=True)


def print_results(
    console: Console, accounting: Accounting, requests: Requests, checks: Sequence[Check]
) -> None:
    """Print the outcomes by type, the requests, the jobs' waits, and the checks."""
    figures = Table.grid(padding=(0, 6))
    figures.add_row(_costs(requests, len(accounting.jobs)), _pickups(accounting))
    console.print(Group("", _results(accounting), figures))
    for check in checks:
        print_check(console, check)
    console.print()


def print_check(console: Console, check: Check) -> None:
    """Print one verdict."""
    console.print(_verdict(check), soft_wrap=True)


def _title(app: App, stage: str, elapsed_s: float) -> RenderableType:
    title = Table.grid(expand=True)
    title.add_column()
    title.add_column(justify="right")
    title.add_row(
        Text.assemble(("headgate demo", "bold"), (f"  {app.name}  ", "dim"), stage),
        Text(f"{elapsed_s:.1f} s", "dim"),
    )
    return title


def _progress(accounting: Accounting, expected: Mapping[str, int]) -> Table:
    table = _table("type", *_COUNTS)
    table.add_column("", width=_BAR)
    for name, jobs in expected.items():
        tally = accounting.tallies[name]
        bar = ProgressBar(total=jobs, completed=tally.ended, width=_BAR)
        table.add_row(name, *_counts(tally), bar)
    table.add_section()
    tally = accounting.total
    bar = ProgressBar(total=sum(expected.values()), completed=tally.ended, width=_BAR)
    table.add_row("all", *_counts(tally), bar, style="bold")
    return table


def _results(accounting: Accounting) -> Table:
    table = _table("type", *_COUNTS)
    table.add_column("died of")
    for name, tally in sorted(accounting.tallies.items()):
        table.add_row(name, *_counts(tally), _reasons(tally.dead))
    table.add_section()
    table.add_row("all", *_counts(accounting.total), "", style="bold")
    if accounting.parked:
        blanks = [""] * (len(_COUNTS) - 1)
        dead = f"{accounting.parked.total():,}"
        table.add_row("messages that are no jobs", *blanks, dead, _reasons(accounting.parked))
    return table


def _costs(requests: Requests, jobs: int) -> Table:
    table = _table("request to SQS", "made", "per job")
    by_action = requests.by_action
    for action, made in by_action.items():
        table.add_row(action.replace("_", " "), f"{made:,}", f"{made / jobs:.2f}" if jobs else "")
    table.add_section()
    made = by_action.total()
    table.add_row("all", f"{made:,}", f"{made / jobs:.2f}" if jobs else "", style="bold")
    return table


def _pickups(accounting: Accounting) -> Table:
    table = _table("picked up after", "jobs", "p50", "p99")
    for priority, waits in sorted(accounting.pickups_s.items(), key=lambda item: item[0].rank):
        table.add_row(
            str(priority),
            f"{len(waits):,}",
            _duration(percentile(waits, 50)),
            _duration(percentile(waits, 99)),
        )
    return table


def _verdict(check: Check) -> Text:
    if check.passed:
        return Text.assemble(("      ok  ", "green"), check.name)
    return Text.assemble(("  FAILED  ", "bold red"), check.name, f": {check.detail}")


def _table(first: str, *numbers: str) -> Table:
    table = Table(box=box.SIMPLE, header_style="dim", pad_edge=False)
    table.add_column(first, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True, min_width=_NUMBER)
    return table


def _counts(tally: Tally) -> list[str]:
    dead = tally.dead.total()
    numbers = (tally.submitted, tally.done, tally.discarded, tally.retried, dead)
    return [f"{number:,}" if number else "·" for number in numbers]


def _reasons(dead: Mapping[str, int]) -> str:
    return "\n".join(f"{count:,} {reason}" for reason, count in sorted(dead.items()))


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
