"""``headgate jobs``: its output and its exit codes."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from headgate import App, Client, JobState
from headgate.jobs.core.ports import Table
from headgate.jobs.records.history import JobRecord
from headgate.jobs.testing import MemorySqs, MemoryTable, VirtualClock
from headgate.ops.views.job import (
    EXIT_ENDED,
    EXIT_FAILED,
    EXIT_UNFINISHED,
    EXIT_UNKNOWN,
    exit_code,
)
from tests.support.backends import over
from tests.support.command_line import CommandLine, Ended
from tests.support.story import JOB, START, Story

NASTY = "[bold]x[/bold] :smile: \x1b[2J\x9b5m\u202e\x00"
SHOWN = "[bold]x[/bold] :smile: \\x1b[2J\\x9b5m\\u202e\\x00"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    """The table that the commands read, in place of AWS's."""
    clock = VirtualClock(START)
    sqs, table = MemorySqs(clock), MemoryTable(clock).sync

    def client(app: App) -> Client:
        sqs.provision(app.topology)
        return Client(app, backend=over(sqs.sync, table=table, clock=clock, sleep=clock.advance))

    monkeypatch.setattr("headgate.jobs.client.client.Client", client)
    return table


class Jobs:
    """The commands, on one app and one job."""

    def __init__(self, headgate: CommandLine) -> None:
        self._headgate = headgate

    def show(self, *options: str, job: str = JOB) -> Ended:
        return self._headgate("jobs", "show", job, *options, app="cli_shop:app")

    def cancel(self, *options: str) -> Ended:
        return self._headgate("jobs", "cancel", JOB, *options, app="cli_shop:app")


@pytest.fixture
def jobs(table: Table, headgate: CommandLine) -> Jobs:  # noqa: ARG001 - in place of AWS's
    return Jobs(headgate)


def test_a_job_is_shown_with_attempts_errors_progress_and_timeline(
    table: Table, jobs: Jobs
) -> None:
    story = Story().submitted(tenant={"org": "org-1"}).progress(2, 40, "packing")
    story.run(3, "failed", attempt=1, ran_s=2.5, error_type="ValueError", error_message="boom")
    story.run(9, "failed", 2, attempt=2, error_type="ValueError", traceback="Traceback: here")
    story.run(9, "dead", 2, attempt=2, reason="attempts-exhausted", error_type="ValueError")
    table.put(story.items)

    ended = jobs.show()

    assert (ended.code, ended.err) == (EXIT_FAILED, "")
    for text in (
        *(f"{JOB}  send: dead", "mail/normal", "org-1", "40 % packing", "2.5 s"),
        *("attempts-exhausted; ValueError", "Traceback: here", "2026-01-01 00:00:09.000Z"),
        *("  submitted", "  dead "),
    ):
        assert text in ended.out, text


def test_a_job_as_json_has_every_field_of_its_record(table: Table, jobs: Jobs) -> None:
    table.put(Story().run(1, "completed", attempt=1, result={"n": 1}).items)
    ended = jobs.show("--json")
    assert ended.code == 0
    record = json.loads(ended.out)
    assert list(record) == [field.name for field in fields(JobRecord)]
    assert (record["id"], record["state"], record["result"]) == (JOB, "completed", {"n": 1})
    assert [each["outcome"] for each in record["attempts"]] == ["completed"]
    assert [each["what"] for each in record["timeline"]] == ["completed"]


def test_what_a_job_says_is_neither_markup_nor_a_command_to_the_terminal(
    table: Table, jobs: Jobs
) -> None:
    story = Story(job_type=NASTY).submitted(tenant={"org": NASTY}).progress(2, 40, NASTY)
    about: dict[str, Any] = {
        "error_type": NASTY,
        "error_message": NASTY,
        "reason": NASTY,
    }
    story.run(3, "dead", attempt=1, traceback=f"{NASTY}\n  {NASTY}", **about)
    table.put(story.items)
    ended = jobs.show()
    assert ended.out.count(SHOWN) > 8  # none was missed
    assert f"{SHOWN}\n  {SHOWN}\n" in ended.out
    assert all(each.isprintable() for each in ended.out.splitlines())
    as_json = jobs.show("--json").out
    assert as_json.isascii()
    assert json.loads(as_json)["error_message"] == NASTY


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (JobState.COMPLETED, 0),
        (JobState.DISCARDED, 0),
        (JobState.DROPPED, 0),
        (JobState.DEAD, EXIT_FAILED),
        (JobState.QUARANTINED, EXIT_FAILED),
        (JobState.CANCELLED, EXIT_FAILED),
        (JobState.WAITING, EXIT_UNFINISHED),
        (JobState.DELAYED, EXIT_UNFINISHED),
        (JobState.RUNNING, EXIT_UNFINISHED),
        (JobState.RETRYING, EXIT_UNFINISHED),
        (JobState.UNKNOWN, EXIT_UNKNOWN),
    ],
)
def test_scripts_can_tell_the_states_apart(state: JobState, code: int) -> None:
    assert exit_code(state) == code


def test_a_job_of_which_nothing_is_known_has_an_exit_code_of_its_own(jobs: Jobs) -> None:
    ended = jobs.show()
    assert ended.code == EXIT_UNKNOWN
    assert f"{JOB}  unknown type: unknown" in ended.out


def test_what_is_no_id_is_a_mistake_of_usage(jobs: Jobs) -> None:
    ended = jobs.show(job="42")
    assert (ended.code, ended.out) == (2, "")
    assert "'42' is not a job id" in ended.err


# --- cancel --------------------------------------------------------------------------------------


def test_a_cancellation_is_recorded_with_its_reason(table: Table, jobs: Jobs) -> None:
    table.put(Story().submitted().items)
    ended = jobs.cancel("--reason", "a mistake")
    assert ended == Ended(0, f"{JOB}: cancellation requested\n", "")
    record = json.loads(jobs.show("--json").out)
    assert record["cancel_reason"] == "a mistake"
    assert record["cancel_requested_at"] is not None


@pytest.mark.parametrize("kind", ["completed", "discarded", "dead", "quarantined"])
def test_a_job_that_has_ended_is_not_cancelled(kind: str, table: Table, jobs: Jobs) -> None:
    table.put(Story().run(1, kind, attempt=1).items)
    ended = jobs.cancel()
    assert (ended.code, ended.out) == (EXIT_ENDED, "")
    assert ended.err == (f"headgate: the job {JOB} is {kind} already: there is nothing to cancel\n")
    assert json.loads(jobs.show("--json").out)["cancel_requested_at"] is None


def test_a_cancelled_job_may_be_cancelled_again(table: Table, jobs: Jobs) -> None:
    table.put(Story().run(1, "cancelled", attempt=1).items)
    assert jobs.cancel().code == 0
