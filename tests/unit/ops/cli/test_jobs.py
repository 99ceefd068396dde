"""``headgate jobs``: its output and its exit codes."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

import pytest

from headgate import JobState
from headgate.jobs.client.jobs.pages import ListedJob
from headgate.jobs.core.ports.table import Item, Table
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.records.history import JobRecord
from headgate.jobs.records.lists.children import children_partition
from headgate.ops.views.job import (
    EXIT_ENDED,
    EXIT_FAILED,
    EXIT_UNFINISHED,
    EXIT_UNKNOWN,
    exit_code,
)
from headgate.ops.views.job_list import EXIT_NONE
from tests.support.command_line import CommandLine, Ended
from tests.support.story import JOB, START, Story

TYPE = "send-email"
"""A type of the app that the commands are about."""

NASTY = "[bold]x[/bold] :smile: \x1b[2J\x9b5m\u202e\x00"
SHOWN = "[bold]x[/bold] :smile: \\x1b[2J\\x9b5m\\u202e\\x00"


class Jobs:
    """The commands, on one app and one job."""

    def __init__(self, headgate: CommandLine) -> None:
        self._headgate = headgate

    def show(self, *options: str, job: str = JOB) -> Ended:
        return self._headgate("jobs", "show", job, *options, app="cli_shop:app")

    def list(self, *options: str) -> Ended:
        return self._headgate("jobs", "list", *options, app="cli_shop:app")

    def count(self, *options: str) -> Ended:
        return self._headgate("jobs", "count", *options, app="cli_shop:app")

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
    assert list(record) == [*(field.name for field in fields(JobRecord)), "children"]
    assert record["children"] == {"jobs": [], "next": "", "skipped": 0}
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
    assert f"{JOB}: unknown" in ended.out


def test_a_job_is_shown_with_its_children_and_their_states(table: Table, jobs: Jobs) -> None:
    first, second, third = (f"{JOB[:-1]}{number}" for number in (2, 3, 4))
    told = {"at": START.isoformat(), "type": NASTY}
    pk = children_partition(JOB)
    table.put([Item(pk=pk, sk=each, data=told) for each in (first, second, third)])
    table.put([Item(pk=pk, sk="nonsense", data=told)])
    died = Story(second, job_type=NASTY).run(5, "dead", error_type="ValueError", reason=NASTY)
    table.put(died.items)

    ended = jobs.show()

    assert re.search(rf"{first}  +\d+d  {re.escape(SHOWN)}: unknown\n{second}", ended.out)
    assert re.search(rf"{second}  +\d+d  {re.escape(SHOWN)}: dead\n    ValueError", ended.out)
    assert "1 entry can't be read." in ended.out
    assert "There may be more" not in ended.out
    few = jobs.show("--children", "2")
    assert first in few.out
    assert third not in few.out
    assert "There may be more" in few.out
    children = json.loads(jobs.show("--json").out)["children"]
    assert [each["id"] for each in children["jobs"]] == [first, second, third]
    assert list(children["jobs"][0]) == [field.name for field in fields(ListedJob)]
    assert children["skipped"] == 1


def test_what_is_no_id_is_a_mistake_of_usage(jobs: Jobs) -> None:
    ended = jobs.show(job="42")
    assert (ended.code, ended.out) == (2, "")
    assert "'42' is not a job id" in ended.err


def test_every_traceback_is_printed_when_it_is_asked_for(table: Table, jobs: Jobs) -> None:
    story = Story().run(1, "failed", attempt=1, traceback="Traceback: first")
    table.put(story.run(9, "failed", 2, attempt=2, traceback="Traceback: second").items)
    assert "Traceback: first" not in jobs.show().out
    out = jobs.show("--tracebacks").out
    assert out.index("Traceback: first") < out.index("Traceback: second")


def test_a_job_says_where_its_payload_and_its_result_are(table: Table, jobs: Jobs) -> None:
    ref = {"key": f"results/{JOB}", "sha256": "0" * 64, "size": 400_000, "encoding": "gzip"}
    table.put(Story().run(1, "completed", attempt=1, result_ref=ref).items)
    assert f"result     400,000 bytes in the app's bucket: results/{JOB}" in jobs.show().out


def test_a_dead_job_says_that_its_payload_is_in_its_dead_letter(table: Table, jobs: Jobs) -> None:
    told: dict[str, Any] = {
        "source": "schedule:nightly",
        "parent": "0196a2b4-0000-7000-8000-000000000002",
    }
    table.put(Story().run(1, "dead", attempt=1, **told).items)
    out = jobs.show().out
    assert f"payload    in its dead letter: headgate dead-letters show {JOB} --payload" in out
    assert "source     schedule:nightly" in out
    assert "parent     0196a2b4-0000-7000-8000-000000000002" in out


def test_a_state_that_is_inferred_says_so(jobs: Jobs) -> None:
    waiting = jobs.show(job=str(new_job_id(START)))
    assert (waiting.code, waiting.err) == (EXIT_UNFINISHED, "")
    assert "inferred   nothing is recorded of it: it waits in its queue" in waiting.out
    assert "because    nothing is recorded of it, and no queue has kept it since" in jobs.show().out


# --- list and count ------------------------------------------------------------------------------


def test_jobs_are_listed_with_their_errors_and_the_next_page(table: Table, jobs: Jobs) -> None:
    error: dict[str, Any] = {"error_type": "ValueError", "error_message": "boom " * 30}
    first = Story(job_type=TYPE).run(-60, "dead", attempt=1, **error)
    second = Story("0196a2b4-0000-7000-8000-000000000002", job_type=TYPE).run(
        -5, "cancelled", reason="a mistake"
    )
    table.put([*first.items, *second.items])

    ended = jobs.list()
    assert (ended.code, ended.err) == (0, "")
    assert re.match(rf"{second.job_id}  +\d+d  {TYPE}: cancelled\n    a mistake\n", ended.out)
    assert re.search(rf"{JOB}  +\d+d  {TYPE}: dead\n    ValueError: boom boom", ended.out)
    assert all(len(line) <= 80 for line in ended.out.splitlines())
    assert "2 jobs; `show ID` has all of one." in ended.out

    short = jobs.list("--limit", "1")
    _, _, cursor = short.out.strip().rpartition(" ")
    assert f"There may be more: --after {cursor}" in short.out
    document = json.loads(jobs.list("--after", cursor, "--json").out)
    assert [each["id"] for each in document["jobs"]] == [JOB]
    assert list(document["jobs"][0]) == [field.name for field in fields(ListedJob)]
    assert document["next"] == ""


@pytest.mark.parametrize(
    "words", [("list",), ("count",), ("cancel", "--yes"), ("cancel", "--dry-run")], ids=" ".join
)
def test_where_nothing_is_found_a_name_that_is_none_is_told(
    table: Table, headgate: CommandLine, words: tuple[str, ...]
) -> None:
    table.put(Story(job_type=TYPE).run(1, "failed", attempt=1).items)
    for option, name, said in (
        ("--type", "send-emial", "there is no type 'send-emial': did you mean 'send-email'?"),
        ("--queue", "job", "there is no queue 'job': did you mean 'jobs'?"),
    ):
        ended = headgate("jobs", *words, option, name, app="cli_shop:app")
        assert ended == Ended(EXIT_NONE, "No such jobs.\n", f"headgate: {said}\n")
    known = headgate("jobs", *words, "--type", "nightly", app="cli_shop:app")
    assert known == Ended(EXIT_NONE, "No such jobs.\n", "")


def test_a_job_that_waits_for_the_end_of_a_pause_is_shown_with_it(table: Table, jobs: Jobs) -> None:
    story = Story(job_type=TYPE).run(-60, "failed", error_type="ValueError", error_message="boom")
    story.run(-5, "released", 2, reason=f"the type {TYPE!r} is paused", paused=True)
    table.put(story.items)
    said = f"it was given back at 2025-12-31 23:59:55Z, since the type {TYPE!r} is paused"
    assert f"because    {said}\n" in re.sub(" {2,}", " " * 4, jobs.show().out)
    assert f"{TYPE}: retrying\n    ValueError: boom\n    {said[:75]}" in jobs.list().out


def test_options_of_a_list_select(table: Table, jobs: Jobs) -> None:
    story = Story(job_type=TYPE).run(-60, "dead", attempt=1, tenant={"org": "org-1"})
    table.put(story.items)
    chosen = ("--state", "dead", "--type", TYPE, "--queue", "mail", "--tenant", "org-1")
    assert jobs.list(*chosen, "--since", "2m", "--until", "30s").code == 0
    for other in (
        ("--state", "cancelled"),
        ("--tenant", "x"),
        ("--since", "30s"),
        ("--queue", "x"),
    ):
        ended = jobs.list(*other)
        assert (ended.code, ended.out) == (EXIT_NONE, "No such jobs.\n")
    assert jobs.list("--state", "waiting").code == 2


def test_jobs_are_counted_by_type_and_state(table: Table, jobs: Jobs) -> None:
    assert jobs.count().code == EXIT_NONE
    table.put(Story(job_type=TYPE).run(1, "failed", attempt=1).run(1, "dead", attempt=1).items)
    ended = jobs.count()
    assert (ended.code, ended.err) == (0, "")
    assert "1 job in all" in ended.out
    document = json.loads(jobs.count("--json").out)
    assert document["counts"] == [{"type": TYPE, "state": "dead", "count": 1}]
    assert (document["total"], document["complete"]) == (1, True)


def test_what_a_listed_job_says_is_no_command_to_the_terminal(table: Table, jobs: Jobs) -> None:
    table.put(
        Story(job_type=TYPE).run(-5, "dead", attempt=1, error_type=NASTY, error_message=NASTY).items
    )
    ended = jobs.list()
    assert SHOWN in ended.out
    assert all(each.isprintable() for each in ended.out.splitlines())


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


@pytest.mark.parametrize("chosen", [(JOB,), ("--type", TYPE), ("--type", TYPE, "--dry-run")])
def test_a_reason_that_is_too_long_is_refused_before_anybody_is_asked(
    table: Table, headgate: CommandLine, chosen: tuple[str, ...]
) -> None:
    table.put(Story(job_type=TYPE).run(1, "failed", attempt=1).items)
    ended = headgate("jobs", "cancel", *chosen, "--reason", "x" * 301, app="cli_shop:app")
    said = "headgate: reason has at most 300 characters, got 301\n"
    assert ended == Ended(2, "", said)


def test_jobs_are_cancelled_by_options_once_that_is_confirmed(
    table: Table, jobs: Jobs, headgate: CommandLine
) -> None:
    table.put(Story(job_type=TYPE).run(1, "failed", attempt=1).items)
    chosen = ("jobs", "cancel", "--type", TYPE)
    said = f"      1  {TYPE}\n1 job would be cancelled.\n"
    assert headgate(*chosen, "--dry-run", app="cli_shop:app") == Ended(0, said, "")
    ended = headgate(*chosen, "--yes", "--reason", "a mistake", app="cli_shop:app")
    assert (ended.code, ended.out) == (0, said.replace("would be", "will be"))
    assert json.loads(jobs.show("--json").out)["cancel_reason"] == "a mistake"
    none = headgate("jobs", "cancel", "--tenant", "x", "--yes", app="cli_shop:app")
    assert (none.code, none.out) == (EXIT_NONE, "No such jobs.\n")


def test_jobs_that_come_to_match_while_somebody_is_asked_are_left(
    table: Table, jobs: Jobs, headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.put(Story(job_type=TYPE).run(1, "failed", attempt=1).items)
    other = "0196a2b4-0000-7000-8000-00000000beef"

    def agree(_text: str, *, abort: bool) -> bool:
        assert abort
        table.put(Story(other, job_type=TYPE).run(1, "failed", attempt=1).items)
        return True

    monkeypatch.setattr("typer.confirm", agree)
    ended = headgate("jobs", "cancel", "--type", TYPE, app="cli_shop:app")
    assert ended.code == 0
    assert "1 job will be cancelled." in ended.out
    assert json.loads(jobs.show("--json").out)["cancel_requested_at"] is not None
    shown = headgate("jobs", "show", other, "--json", app="cli_shop:app")
    assert json.loads(shown.out)["cancel_requested_at"] is None


@pytest.mark.usefixtures("table")
def test_a_cancellation_names_one_job_or_selects_several(headgate: CommandLine) -> None:
    for given in ((), (JOB, "--type", TYPE)):
        ended = headgate("jobs", "cancel", *given, app="cli_shop:app")
        assert ended.code == 2
        assert "name one job by its id, or select several" in ended.err


def test_a_job_is_run_again_and_the_new_ones_id_is_printed(
    table: Table, headgate: CommandLine
) -> None:
    table.put(Story(job_type=TYPE).run(1, "completed", attempt=1).items)
    again = ("jobs", "rerun", JOB)
    refused = headgate(*again, app="cli_shop:app")
    assert (refused.code, refused.out) == (2, "")
    assert "give the payload to run it again with" in refused.err
    assert headgate(*again, "--payload", "{", app="cli_shop:app").code == 2
    null = headgate(*again, "--payload", "null", app="cli_shop:app")
    assert (null.code, null.out) == (2, "")
    assert "null replaces no payload" in " ".join(null.err.split())
    grouped = headgate(*again, "--payload", '{"to": "a"}', "--group", "a", app="cli_shop:app")
    assert grouped.code == 2
    assert "group orders the jobs of a FIFO queue" in grouped.err
    ended = headgate(*again, "--payload", '{"to": "a"}', app="cli_shop:app")
    assert (ended.code, ended.err) == (0, "")
    assert len(ended.out.strip()) == len(JOB)


def test_a_cancelled_job_may_be_cancelled_again(table: Table, jobs: Jobs) -> None:
    table.put(Story().run(1, "cancelled", attempt=1).items)
    assert jobs.cancel().code == 0
