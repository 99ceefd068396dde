"""``headgate status`` and ``headgate submit --wait``: their output and their exit codes."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import headgate.ops.cli
from headgate import App, Client, JobState
from headgate.jobs.core.ports import BlockingTable, Item
from headgate.jobs.testing import MemorySqs, MemoryTable, VirtualClock
from headgate.ops.cli import cli
from headgate.ops.status import EXIT_FAILED, EXIT_UNFINISHED, EXIT_UNKNOWN, exit_code
from tests.support.story import JOB, START, Story

APP = """
from pydantic import BaseModel
from headgate import App

class Email(BaseModel):
    to: str

app = App("shop", stage="test", records="outcomes")
silent = App("shop", stage="test", records="failures")

@app.job("send-email")
def send_email(email: Email) -> int: ...

@silent.job("send-email")
def send_silently(email: Email) -> int: ...
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A working directory with an app in it; the process is restored afterwards."""
    (tmp_path / "status_shop.py").write_text(textwrap.dedent(APP))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield
    sys.modules.pop("status_shop", None)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> BlockingTable:
    """The table that the commands read, in place of AWS's."""
    clock = VirtualClock(START)
    sqs, table = MemorySqs(clock), MemoryTable(clock).blocking

    def client(app: App) -> Client:
        sqs.provision(app.topology)
        return Client(app, transport=sqs.blocking, table=table, clock=clock, sleep=clock.advance)

    monkeypatch.setattr(headgate.ops.cli, "Client", client)
    return table


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def status(*options: str) -> Result:
    return run("status", "status_shop:app", JOB, *options)


def test_the_status_shows_attempts_errors_progress_and_the_timeline(table: BlockingTable) -> None:
    story = Story().submitted(tenant={"org": "org-1"}).progress(2, 40, "packing")
    story.run(3, "failed", attempt=1, ran_s=2.5, error_type="ValueError", error_message="boom")
    story.run(9, "failed", 2, attempt=2, error_type="ValueError", traceback="Traceback: here")
    story.run(9, "dead", 2, attempt=2, reason="attempts-exhausted", error_type="ValueError")
    table.put(story.items)

    result = status()

    assert result.exit_code == EXIT_FAILED
    for text in (
        *(f"{JOB}  send: dead", "mail/normal", "org-1", "40 % packing", "2.5 s"),
        *("attempts-exhausted; ValueError", "Traceback: here", "2026-01-01 00:00:09.000Z"),
        *("  submitted", "  dead "),
    ):
        assert text in result.stdout, text


def test_the_status_is_json_for_machines(table: BlockingTable) -> None:
    table.put(Story().run(1, "completed", attempt=1, result={"n": 1}).items)
    result = status("--json")
    assert result.exit_code == 0
    record = json.loads(result.stdout)
    assert (record["id"], record["state"], record["result"]) == (JOB, "completed", {"n": 1})
    assert [each["outcome"] for each in record["attempts"]] == ["completed"]
    assert [each["what"] for each in record["timeline"]] == ["completed"]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (JobState.COMPLETED, 0),
        (JobState.DISCARDED, 0),
        (JobState.DEAD, EXIT_FAILED),
        (JobState.QUARANTINED, EXIT_FAILED),
        (JobState.CANCELLED, EXIT_FAILED),
        (JobState.SUBMITTED, EXIT_UNFINISHED),
        (JobState.SCHEDULED, EXIT_UNFINISHED),
        (JobState.RUNNING, EXIT_UNFINISHED),
        (JobState.RETRYING, EXIT_UNFINISHED),
        (JobState.UNKNOWN, EXIT_UNKNOWN),
    ],
)
def test_scripts_can_tell_the_states_apart(state: JobState, code: int) -> None:
    assert exit_code(state) == code


def test_a_job_of_which_nothing_is_known_has_an_exit_code_of_its_own(
    table: BlockingTable,  # noqa: ARG001 - in place of AWS's
) -> None:
    result = status()
    assert result.exit_code == EXIT_UNKNOWN
    assert f"{JOB}  unknown type: unknown" in result.stdout


def test_what_is_no_id_is_a_mistake_of_usage(table: BlockingTable) -> None:  # noqa: ARG001 - as above
    result = run("status", "status_shop:app", "42")
    assert result.exit_code == 2
    assert "'42' is no job id" in result.output


# --- submit --wait -------------------------------------------------------------------------------


def _ending(table: BlockingTable, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every requested job one that has just ended."""
    query = table.query

    def ended(pk: str, *, prefix: str = "") -> list[Item]:
        story = Story(pk.removeprefix("job#")).run(1, kind, result=7, reason="because")
        table.put(story.items)
        return query(pk, prefix=prefix)

    monkeypatch.setattr(table, "query", ended)


def submit(app: str, *options: str) -> Result:
    return run("submit", f"status_shop:{app}", "send-email", '{"to": "ada"}', *options)


def test_who_waits_gets_the_id_and_then_the_result(
    table: BlockingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ending(table, "completed", monkeypatch)
    result = submit("app", "--wait")
    assert result.exit_code == 0, result.output
    job_id, printed = result.stdout.splitlines()
    assert (len(job_id), printed) == (36, "7")


def test_who_waits_for_a_job_that_fails_hears_why(
    table: BlockingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ending(table, "dead", monkeypatch)
    result = submit("app", "--wait")
    assert result.exit_code == EXIT_FAILED
    assert "is dead: because" in result.output


def test_who_waits_in_vain_is_told_the_state(table: BlockingTable) -> None:  # noqa: ARG001 - as above
    result = submit("app", "--wait", "--timeout", "2m")
    assert result.exit_code == EXIT_UNFINISHED
    assert "within 120 s; its state is unknown" in result.output


def test_what_can_never_be_awaited_is_not_even_submitted(table: BlockingTable) -> None:  # noqa: ARG001 - as above
    result = submit("silent", "--wait")
    assert result.exit_code == 2
    assert "--wait needs a type with records" in result.output
