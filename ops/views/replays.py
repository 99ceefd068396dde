"""Output of ``headgate dead-letters replay`` and its kin: replays, as they run and after."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC
from types import FrameType
from typing import Any

from headgate.jobs.dead_letters.replaying.report import MAX_LISTED, ReplayReport, ReplayState
from headgate.jobs.dead_letters.replaying.runner import INTERRUPTED
from headgate.jobs.errors import TransportError
from headgate.ops.views.output import TextTable, in_line, show, show_error, show_json
from headgate.workers.process.exit_codes import EXIT_INTERRUPTED

EXIT_LEFT = 1
"""Exit code of a replay that is done, and has left letters where they are."""
EXIT_STOPPED = 3
"""Exit code of a replay that has stopped or was aborted."""

_SHOWN = 5
"""Refused letters that are named."""


def exit_code(report: ReplayReport) -> int:
    """Return the exit code for the end of a replay: 0 if everything was sent."""
    if report.state is ReplayState.DONE:
        return EXIT_LEFT if report.refused else 0
    return EXIT_INTERRUPTED if report.reason == INTERRUPTED else EXIT_STOPPED


def show_plan(report: ReplayReport) -> None:
    """Print what a dry run has counted."""
    show(f"{_jobs(report.sent)} to replay{', at most as many as the limit' * _is_bound(report)}")
    for queue, count in sorted(report.by_queue.items()):
        show(in_line(f"  {count:>7,}  {queue}"))
    if report.reason:
        show(f"  {report.reason}")
    _show_left(report)


def show_end(report: ReplayReport, *, as_json: bool) -> int:
    """Print how a replay has ended; returns the exit code."""
    if as_json:
        show_json(values_of(report))
        return exit_code(report)
    show(in_line(f"{report.id}: {_told(report)}"))
    _show_left(report)
    if report.state is ReplayState.STOPPED:
        show(in_line(f"To go on: headgate dead-letters resume {report.id}"))
    if report.sent:
        show(in_line(f"To see what becomes of them: headgate jobs count {_followed(report)}"))
    return exit_code(report)


def show_replays(found: Sequence[ReplayReport], *, as_json: bool) -> None:
    """Print replays, a line for each, and below them why some have stopped."""
    if as_json:
        show_json([values_of(each) for each in found])
        return
    numbers = ("sent", "of", "refused", "died again")
    table = TextTable(
        "replay (UTC)", "state", "by", *numbers, right=numbers, whole=("replay (UTC)",)
    )
    for each in found:
        table.row(
            each.id,
            each.state,
            each.actor or "-",
            f"{each.sent:,}",
            "-" if each.total is None else f"{each.total:,}",
            f"{each.refused:,}",
            f"{each.died_again:,}",
        )
    table.show()
    for each in found:
        if each.reason:
            show(in_line(f"{each.id}: {each.reason}"))


def values_of(report: ReplayReport) -> dict[str, Any]:
    """Return a replay as the values of its JSON document."""
    return {each.name: getattr(report, each.name) for each in fields(report)}


@contextmanager
def watched(stop: Callable[[], None]) -> Iterator[Callable[[ReplayReport], None]]:
    """Show a replay's progress in one line of a terminal, and stop it at the first Ctrl-C.

    Says how to go on with one that an error stops, since no report of its end is returned.

    Args:
        stop: stops it once its requests under way are answered.
    """

    def interrupted(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a second one is immediate
        show_error("stopping; press Ctrl-C again to end at once")
        stop()

    before = signal.signal(signal.SIGINT, interrupted)
    line = _Line()
    try:
        yield line.write
    except TransportError:
        line.clear()
        if line.replay_id:
            show_error(f"To go on: headgate dead-letters resume {line.replay_id}")
        raise
    finally:
        line.clear()
        signal.signal(signal.SIGINT, before)


class _Line:
    """One line on standard error that is written over and over; once if that is no terminal."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._width = 0
        self._told = False
        self.replay_id = ""
        """Empty until the replay has begun."""

    def write(self, report: ReplayReport) -> None:
        if not self._is_terminal and not self._told:
            self._told = True
            show_error(f"{report.id} has begun; to end it: headgate dead-letters abort {report.id}")
        self.replay_id = report.id
        self._put(in_line(f"{report.id}: {_told(report)}"))

    def clear(self) -> None:
        self._put("")
        if self._is_terminal:
            sys.stderr.write("\r")

    def _put(self, text: str) -> None:
        if self._is_terminal:
            sys.stderr.write(f"\r{text:<{self._width}}")
            sys.stderr.flush()
        self._width = len(text)


def _told(report: ReplayReport) -> str:
    of = "" if report.total is None else f" of {report.total:,}"
    told = [f"{report.state}", f"{report.sent:,}{of} sent"]
    if report.refused:
        told.append(f"{report.refused:,} left where they are")
    if report.died_again:
        told.append(f"{report.died_again:,} died again")
    return ", ".join(told) + (f" ({report.reason})" if report.reason else "")


def _show_left(report: ReplayReport) -> None:
    if report.refused:
        show(f"{report.refused:,} left where they are:")
    for each in report.left[:_SHOWN]:
        show(in_line(f"  {each.job_id or each.message_id}  {each.job_type or '-'}: {each.why}"))
    if report.refused > _SHOWN:
        asked = f"headgate dead-letters replays {report.id} --json" if report.id else "--json"
        more = f"and {report.refused - _SHOWN:,} more; {asked} lists up to {MAX_LISTED}"
        show(in_line(f"  {more}"))


def _followed(report: ReplayReport) -> str:
    """Return the options that select what has happened since to jobs such as it has sent."""
    as_type = report.options.as_type
    types = report.filter.types if as_type is None else (as_type,)
    since = f"{report.started_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return shlex.join([*(word for each in types for word in ("--type", each)), "--since", since])


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _is_bound(report: ReplayReport) -> bool:
    return report.options.limit is not None and report.sent == report.options.limit
