"""The board: an app's state by the lines that its process writes."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from headgate.events import (
    HookFailed,
    JobAlreadyDone,
    JobCancelled,
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    JobDiscarded,
    JobDropped,
    JobFailed,
    JobInterrupted,
    JobProgress,
    JobQuarantined,
    JobRetryScheduled,
    JobStalled,
    JobStarted,
    LoopBlocked,
    MessageUnrunnable,
    QueuePaused,
    QueueResumed,
)
from headgate.jobs.core.event_log import log_event
from headgate.jobs.core.events import Event
from headgate.jobs.core.topology import Priority
from headgate.ops.dev import notes
from headgate.ops.dev.board import Board, Said
from headgate.workers.logs import json_formatter
from tests.support.loggers import restored

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FACTS: dict[str, Any] = {
    "app": "shop-dev",
    "types": ["greet", "nightly"],
    "schedules": {"nightly": "2026-01-02T08:00:00+00:00"},
    "provisioned": "digest",
}


class Log(logging.Handler):
    """Hands each line of a process's log to a board, as its formatter writes it."""

    def __init__(self, board: Board) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(json_formatter())
        self._board = board
        self.said: list[Said | None] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self._board.hear(self.format(record)))


def hear(
    board: Board, logger: str, message: str, level: int = logging.INFO, **fields: Any
) -> Said | None:
    log = Log(board)
    record = logging.LogRecord(logger, level, "here.py", 1, message, None, None)
    vars(record).update(fields)
    log.emit(record)
    return log.said[-1]


def ready() -> Board:
    board = Board()
    hear(board, notes.LOGGER, notes.READY, **FACTS)
    return board


def happened(board: Board, *events: Event) -> list[Said | None]:
    log = Log(board)
    with restored("headgate.worker") as logger:
        logger.addHandler(log)
        logger.setLevel(logging.DEBUG)
        for event in events:
            log_event(event)
    return log.said


def of(kind: type[Any], /, **fields: Any) -> Any:
    common: dict[str, Any] = {"queue": "jobs", "priority": Priority.NORMAL, "job_type": "greet"}
    return kind(at=NOW, job_id="7", attempt=1, max_attempts=3, **common, **fields)


STARTED = of(JobStarted, is_first=True, waited_s=0.1)
FAILED = of(
    JobFailed, ran_s=0.1, error_type="ValueError", error_message="no", traceback="Traceback: x\n"
)


def texts(said: list[Said | None]) -> list[str]:
    return [each.text for each in said if each is not None]


def test_a_loaded_app_shows_its_types_and_the_next_times_of_its_schedules() -> None:
    board = ready()
    assert (board.app, board.state, list(board.tallies)) == (
        "shop-dev",
        "running",
        ["greet", "nightly"],
    )
    assert board.schedules == {"nightly": datetime(2026, 1, 2, 8, tzinfo=UTC)}
    assert board.provisioned == "digest"


def test_a_job_counts_as_running_from_its_start_to_its_end() -> None:
    board = ready()
    happened(board, STARTED)
    assert board.tallies["greet"].running == {"7"}
    said = happened(board, of(JobCompleted, ran_s=0.012))
    assert (board.tallies["greet"].running, board.tallies["greet"].completed) == (set(), 1)
    assert texts(said) == ["greet 7 completed in 12 ms"]


def test_a_job_that_reports_progress_or_overruns_still_runs() -> None:
    board = ready()
    progress = of(JobProgress, percent=13, note="importing", data={})
    assert texts(happened(board, STARTED, progress)) == []
    assert board.tallies["greet"].running == {"7"}
    happened(board, of(JobStalled, timeout_s=2))
    assert board.tallies["greet"].running == {"7"}


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (of(JobDeferred, delay_s=300, reason="not yet"), "comes back in 300 s: not yet"),
        (of(JobDeferred, delay_s=0, reason=""), "comes back at once"),
        (of(JobDiscarded, reason="nothing to do"), "was discarded: nothing to do"),
        (of(JobDropped, kind="expired", reason="too old"), "was dropped without a run: too old"),
        (of(JobCancelled, reason=""), "was cancelled"),
        (of(JobInterrupted, reason="it stops"), "goes back to its queue: it stops"),
        (of(JobAlreadyDone), "was done already: this copy of it is deleted"),
    ],
)
def test_a_job_that_neither_completed_nor_failed_is_told_in_words(event: Event, text: str) -> None:
    board = ready()
    assert texts(happened(board, STARTED, event)) == [f"greet 7 {text}"]
    assert board.tallies["greet"].running == set()


def test_a_failure_shows_its_traceback_and_what_becomes_of_the_job() -> None:
    board = ready()
    dead = of(JobDeadLettered, reason="attempts-exhausted", error_type="E", error_message="no")
    said = happened(board, STARTED, FAILED, of(JobRetryScheduled, delay_s=5), FAILED, dead)
    assert texts(said) == [
        "greet 7 failed: ValueError: no\nTraceback: x",
        "greet 7 again in 5 s",
        "greet 7 failed: ValueError: no\nTraceback: x",
        "greet 7 is a dead letter: attempts-exhausted",
    ]
    assert (board.tallies["greet"].retried, board.tallies["greet"].dead) == (1, 1)
    assert texts(happened(board, of(JobRetryScheduled, delay_s=0))) == ["greet 7 again at once"]


def test_counts_outlast_an_edit_and_running_jobs_do_not() -> None:
    board = ready()
    happened(board, STARTED, of(JobCompleted, ran_s=1), STARTED)
    board.begin()
    assert board.state == "loading"
    hear(board, notes.LOGGER, notes.READY, **FACTS | {"types": ["greet"]})
    assert list(board.tallies) == ["greet"]
    assert (board.tallies["greet"].running, board.tallies["greet"].completed) == (set(), 1)


def test_the_next_time_of_a_type_follows_its_firings() -> None:
    board = ready()
    assert hear(board, notes.LOGGER, notes.DUE, schedules={"nightly": NOW.isoformat()}) is None
    assert board.schedules == {"nightly": NOW}


def test_an_app_that_can_not_be_run_shows_its_traceback_and_the_reason() -> None:
    said = hear(Board(), notes.LOGGER, notes.BROKEN, reason="the app is wrong", trace="Trace\n")
    assert said == Said(text="Trace\nthe app is wrong", style="bad")


def test_what_handlers_print_and_log_is_shown_and_what_the_worker_notes_is_not() -> None:
    board = ready()
    assert board.hear("plain") == Said(text="plain")
    assert board.hear('{"not": "a log line"}') == Said(text='{"not": "a log line"}')
    assert hear(board, "headgate.job.greet", "Hello", job_type="greet") == Said(text="greet: Hello")
    assert hear(board, "shop.mail", "sent") == Said(text="sent")
    paused = "ada@laptop: pause queue payments: done"
    assert hear(board, "headgate.audit", paused) == Said(text=paused)
    assert hear(board, "headgate.worker", "working on shop: jobs") is None
    loud = hear(board, "headgate.worker", "no scale-in protection", logging.WARNING)
    assert loud == Said(text="no scale-in protection", style="warning")


def test_nothing_that_a_job_says_can_move_the_terminal() -> None:
    board = ready()
    assert board.hear("\x1b[2J") == Said(text="\\x1b[2J")
    logged = hear(board, "headgate.job.greet", "\x1b[2J", job_type="greet")
    assert logged == Said(text="greet: \\x1b[2J")


def test_a_line_that_only_looks_like_one_of_the_log_is_printed_as_it_is() -> None:
    line = json.dumps({"logger": 1, "level": "INFO", "message": "x"})
    assert Board().hear(line) == Said(text=line)


def test_a_job_whose_process_died_is_told_in_words_and_counted_as_dead() -> None:
    board = ready()
    detail = "the child process exited with code 3"
    crashed, quarantined = happened(
        board, of(JobCrashed, detail=detail, crashes=1), of(JobQuarantined, detail=detail)
    )
    assert crashed == Said(text=f"greet 7 crashed: {detail}", style="bad")
    assert quarantined is not None
    assert quarantined.text == f"greet 7 is a dead letter: quarantined, since {detail}"
    assert board.tallies["greet"].dead == 1


@pytest.mark.parametrize(
    ("again_s", "then"), [(10, "looked at again in 10 s"), (None, "it is a dead letter")]
)
def test_a_job_of_a_type_that_an_edit_has_removed_is_told_in_words(
    again_s: int | None, then: str
) -> None:
    event = MessageUnrunnable(
        at=NOW,
        queue="shop-jobs-normal",
        message_id="m",
        job_id="7",
        job_type="greet",
        reason="unknown-type",
        detail="no handler for the job type 'greet' in this worker",
        receives=1,
        retry_in_s=again_s,
    )
    [said] = happened(ready(), event)
    detail = "greet 7 can't run: no handler for the job type 'greet' in this worker"
    assert said == Said(text=f"{detail}; {then}", style="warning")


def test_a_pause_and_its_end_are_told_in_words() -> None:
    paused = QueuePaused(
        at=NOW,
        kind="queue",
        target="jobs",
        priority=Priority.LOW,
        since=NOW,
        until=NOW,
        reason="the bank is down",
        actor="ada",
    )
    resumed = QueueResumed(at=NOW, kind="tenant", target="org-1")
    assert happened(ready(), paused, resumed) == [
        Said(text="paused: queue jobs low by ada: the bank is down", style="warning"),
        Said(text="resumed: tenant org-1", style="warning"),
    ]


@pytest.mark.parametrize(
    ("types", "by"),
    [(("greet", "nightly"), "greet or nightly"), ((), "other programs on this machine, it seems")],
)
def test_a_blocked_event_loop_is_told_with_what_may_have_blocked_it(
    types: tuple[str, ...], by: str
) -> None:
    [said] = happened(ready(), LoopBlocked(at=NOW, blocked_s=2.275, job_types=types))
    text = f"the event loop was blocked for 2.27 s, by {by}"
    assert said == Said(text=text, style="warning")


def test_a_fault_without_words_of_its_own_is_told_with_its_facts() -> None:
    fault = HookFailed(at=NOW, hook="mail.told", event="job.completed", error="it broke")
    text = "hook.failed hook=mail.told event=job.completed error=it broke"
    assert happened(ready(), fault) == [Said(text=text, style="warning")]


def test_a_dead_letter_is_not_told_again_by_the_sweep() -> None:
    assert hear(ready(), "headgate.sweep", "dead letter", logging.WARNING, job_type="greet") is None
