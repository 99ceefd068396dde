"""The marks of an attempt: their kinds and contents, by its outcome."""

from __future__ import annotations

from typing import Any

from headgate.jobs.execution.outcome import (
    Cancelled,
    Crashed,
    Deferred,
    Failed,
    Interrupted,
    Outcome,
    Unrunnable,
    Unstarted,
)
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.actions import (
    Action,
    DeadLetter,
    Quarantine,
    Release,
    RetryAfter,
)
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.records.items import Mark
from headgate.jobs.values.texts import type_of


def seen(run: Run) -> dict[str, Any]:
    """Return the beats of the silent workers that began the job, for the next delivery."""
    return {"beats": dict(run.beats)} if run.beats else {}


def pause_details(outcome: Outcome) -> dict[str, Any]:
    """Return the data of a release because of a pause; nothing of any other outcome."""
    if not (isinstance(outcome, Unstarted) and outcome.paused):
        return {}
    return {"reason": outcome.reason, "paused": True}


def mark_of(outcome: Outcome, *, began: bool) -> Mark | None:
    """Return the mark of an attempt that did not end its job; None if it did, or leaves no mark.

    Args:
        outcome: the outcome of the delivery.
        began: whether its handler was called.
    """
    match outcome:
        case Failed():
            return Mark.FAILED
        case Crashed():
            return Mark.CRASHED
        case Deferred():
            return Mark.DEFERRED
        case Interrupted() if began:
            return Mark.INTERRUPTED
        case Interrupted() | Unstarted():
            return Mark.RELEASED
        case Cancelled():
            return Mark.CANCELLED
        case Unrunnable():
            return Mark.UNRUNNABLE
        case _:
            return None


def details(verdict: Verdict, *, began: bool) -> dict[str, Any]:
    """Return the data of the mark of an end; ``began`` as for `mark_of`."""
    action, ran = verdict.action, {"ran_s": verdict.ran_s} if began else {}
    again = {"retry_in_s": action.delay_s} if isinstance(action, RetryAfter | Release) else {}
    match verdict.outcome:
        case Failed(error=error, message=message, traceback=traceback):
            return {
                "ran_s": verdict.ran_s,
                "error_type": type_of(error),
                "error_message": message,
                "traceback": traceback,
                **_final(action),
                **again,
            }
        case Crashed(detail=detail):
            return {"detail": detail, **_final(action), **again}
        case (
            Deferred(reason=reason)
            | Interrupted(reason=reason)
            | Unstarted(reason=reason)
            | Cancelled(reason=reason)
        ):
            return {"reason": reason, **ran, **again, **pause_details(verdict.outcome)}
        case Unrunnable(reason=why, detail=detail):
            return {"reason": why, "detail": detail, **again}
        case _:
            return {}


def _final(action: Action) -> dict[str, Any]:
    """Return the reason for no further attempt, in case its message can't be parked now."""
    match action:
        case DeadLetter(reason=reason):
            return {"final": reason}
        case Quarantine():
            return {"final": Mark.QUARANTINED}
        case _:
            return {}
