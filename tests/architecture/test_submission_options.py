"""An option of a submission, and a field of a message, stand wherever they have to.

`SubmitOptions` and `Envelope` are the tables. Each test goes through one of them, and says which
file to edit for what is missing there.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import typer

from headgate import App, Backoff, Client, Priority, Schedule, Unique
from headgate.errors import OptionInvalid
from headgate.jobs.core.retention import Keep
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.messages.envelope import Envelope, Options
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.records.history import JobRecord
from headgate.jobs.records.items import submitted_item
from headgate.jobs.schedules.firing import read_scheduled
from headgate.jobs.submission.prepare import Submission, prepare
from headgate.ops.cli.main import cli
from headgate.testing import MemoryBackend

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OPTIONS = sorted(SubmitOptions.__annotations__)

VALUES: dict[str, Any] = {
    "delay": timedelta(minutes=3),
    "at": NOW + timedelta(minutes=3),
    "priority": Priority.LOW,
    "max_attempts": 7,
    "backoff": Backoff.fixed(30),
    "timeout": 2.5,
    "expires": timedelta(minutes=5),
    "keep": timedelta(hours=1),
    "tenant": "org-1",
    "group": "group-1",
    "unique": Unique(within=60),
}
"""A value of each option."""

WIRE = {
    "delay": "not_before",
    "at": "not_before",
    "priority": "priority",
    "max_attempts": "options.attempts",
    "backoff": "options.backoff",
    "timeout": "options.timeout_s",
    "expires": "expires_at",
    "keep": "options.keep",
    "tenant": "tenant",
    "group": None,
    "unique": "options.unique",
}
"""The field of the message that tells a worker of each option; None: SQS's own MessageGroupId."""

FLAGS = {"timeout": "attempt_timeout", "unique": "unique_for"}
"""Options of the command line whose names differ: ``--timeout`` is that of ``--wait``."""

NOT_OF_SCHEDULES = {"delay", "at", "unique", "expires"}

NOT_RECORDED = {
    "v": "the item's format is its own",
    "id": "it is the item's key",
    "schema": "it matters to who reads the payload",
    "payload": "it is large, and nobody else's business",
    "payload_ref": "likewise",
    "sealed": "likewise",
    "submitted_at": "it is the item's own time",
    "trace": "it matters to spans",
    "attempts_used": "the marks of attempts tell it",
    "options": "they matter to who runs the job",
}
"""Fields of a message that the record of its submission leaves out, and why."""


def prepared(**overrides: Any) -> Submission:
    """Return a submission, to a FIFO queue if it has a group."""
    app = App("shop", priorities="all")
    job = app.queue("orders", fifo="group" in overrides).define("ship", dict[str, int])
    return prepare(
        app,
        app.topology,
        job,
        {},
        cast("SubmitOptions", overrides),
        now=NOW,
        job_id=new_job_id(NOW),
    )


def at(body: Any, path: str) -> Any:
    """Return the value at a dotted path of a JSON object; None if there is none."""
    for name in path.split("."):
        body = body.get(name) if isinstance(body, dict) else None
    return body


def goldens() -> list[dict[str, Any]]:
    """Return the recorded messages."""
    return [json.loads(path.read_text()) for path in ROOT.glob("tests/compat/v1/*.json")]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


# --- options -------------------------------------------------------------------------------------


def test_every_option_has_a_value_here_and_a_place_in_the_message() -> None:
    here = "tests/architecture/test_submission_options.py"
    assert sorted(VALUES) == OPTIONS, f"add a value of the option to VALUES in {here}"
    assert sorted(WIRE) == OPTIONS, f"add the option's field of the message to WIRE in {here}"


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_read_when_a_submission_is_prepared(name: str) -> None:
    files = ("jobs/submission/prepare.py", "jobs/submission/overrides.py")
    read = {
        call.args[0].value
        for file in files
        for call in ast.walk(ast.parse((ROOT / file).read_text()))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) == "overrides.get"
        and isinstance(call.args[0], ast.Constant)
    }
    assert name in read, f'read overrides.get("{name}") in {" or ".join(files)}'


@pytest.mark.parametrize("name", VALUES)
def test_an_option_goes_into_the_message(name: str) -> None:
    sent = prepared(**{"tenant": "org-2", name: VALUES[name]})
    if (path := WIRE[name]) is None:
        assert sent.message.group == VALUES[name]
        return
    body = json.loads(sent.message.body)
    plain = json.loads(prepared(tenant="org-2").message.body)
    assert at(body, path) not in (None, at(plain, path)), (
        f"write {name}= into the message's {path}: jobs/submission/prepare.py, and for a new field "
        "jobs/messages/envelope.py, then `make schema`"
    )


@pytest.mark.parametrize("name", OPTIONS)
def test_the_command_line_has_an_option_for_it(name: str) -> None:
    group = cast("Any", typer.main.get_command(cli))
    flags = {parameter.name for parameter in group.commands["submit"].params}
    assert FLAGS.get(name, name) in flags, (
        f"add --{FLAGS.get(name, name).replace('_', '-')} to `submit` in ops/cli/submit.py"
    )


@pytest.mark.parametrize("name", OPTIONS)
def test_the_page_about_submitting_lists_it(name: str) -> None:
    flag = FLAGS.get(name, name).replace("_", "-")
    row = re.compile(rf"^\| `{name}=` \| .+ \| `--{flag}` \|$", re.MULTILINE)
    assert row.search(page("submitting.md")), (
        f"add a row `{name}=`, with `--{flag}`, to the table of options in docs/submitting.md"
    )


@pytest.mark.parametrize("name", OPTIONS)
def test_the_typing_samples_submit_with_it(name: str) -> None:
    file = "tests/typing/samples.py"
    calls = [
        {keyword.arg for keyword in call.keywords}
        for call in ast.walk(ast.parse((ROOT / file).read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "client.submit"
    ]
    assert any(name in keywords for keywords in calls), f"submit with {name}= in {file}"


@pytest.mark.parametrize("name", [name for name in VALUES if name != "group"])
def test_a_schedule_takes_it_or_refuses_it_by_name(name: str) -> None:
    app = App("shop", priorities="all")
    job = app.define("ship", dict[str, int])
    backend = MemoryBackend(app)
    with Client(app, backend=backend) as client:
        create = cast("Any", client.schedules.create)
        hourly = Schedule.rate(timedelta(hours=1))
        if name in NOT_OF_SCHEDULES:
            with pytest.raises(OptionInvalid, match=f"takes no {name}"):
                create("s", job, {}, schedule=hourly, **{name: VALUES[name]})
            return
        create("s", job, {}, schedule=hourly, **{name: VALUES[name]})
    [spec] = backend.scheduler.schedules
    kept = json.loads(read_scheduled(spec.input).model_dump_json())
    assert at(kept, str(WIRE[name])) is not None, (
        f"keep {name}= in `of_jobs_like` of jobs/client/schedules/schedule_requests.py, or refuse "
        "it in `job_of` there and add it to NOT_OF_SCHEDULES here"
    )


# --- fields of a message -------------------------------------------------------------------------

FIELDS = sorted(field.alias or name for name, field in Envelope.model_fields.items())


@pytest.mark.parametrize("path", [*FIELDS, *(f"options.{name}" for name in Options.model_fields)])
def test_a_recorded_message_of_each_field_stays_readable_for_ever(path: str) -> None:
    assert any(at(body, path) is not None for body in goldens()), (
        f"add a message with {path} to tests/compat/v1, its sum to SHA256SUMS there, and what it "
        "says to EXPECTED in tests/compat/test_messages_v1.py"
    )


@pytest.mark.parametrize("name", [*FIELDS, *Options.model_fields])
def test_the_page_about_messages_tells_of_each_field(name: str) -> None:
    rows = re.findall(r"^\| .*$", page("messages.md"), re.MULTILINE)
    assert any(f"`{name}`" in row for row in rows), f"tell of `{name}` in docs/messages.md"


@pytest.mark.parametrize("name", FIELDS)
def test_the_record_of_a_submission_has_each_field_and_a_history_shows_it(name: str) -> None:
    values = {option: VALUES[option] for option in ("delay", "tenant", "max_attempts", "expires")}
    envelope = prepared(**values).envelope.model_copy(update={"parent": new_job_id(NOW)})
    item = submitted_item(envelope, Keep())
    if name in NOT_RECORDED:
        assert name not in item.data
        return
    assert name in item.data, (
        f"take {name!r} out of _NOT_OF_ITEM in jobs/records/items.py, or add it to NOT_RECORDED "
        "here with the reason"
    )
    assert name in {each.name for each in fields(JobRecord)}, (
        f"add {name!r} to JobRecord, and read it in `_submission`, in jobs/records/history.py"
    )
