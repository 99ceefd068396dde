from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import headgate.ops.cli
import headgate.workers.process.entry
from headgate import App, Client, Priority
from headgate.jobs.core.ports import BlockingTransport
from headgate.jobs.errors import QueueMissing, UnknownQueue
from headgate.jobs.messages.envelope import parse
from headgate.jobs.testing import MemorySqs, VirtualClock
from headgate.ops.cli import cli, duration, in_words, main
from headgate.workers.configuration import Watching, WorkerSettings

APP = """
from pydantic import BaseModel
from headgate import App

class Email(BaseModel):
    to: str

app = App("shop", stage="test")

@app.job("send-email")
def send_email(email: Email) -> None: ...

@app.job("nightly")
def nightly() -> None: ...
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with an app in it; the process is restored afterwards."""
    (tmp_path / "cli_shop.py").write_text(textwrap.dedent(APP))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in [name for name in os.environ if name.startswith("HEADGATE_")]:
        monkeypatch.delenv(name)
    yield tmp_path
    sys.modules.pop("cli_shop", None)


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> MemorySqs:
    """The SQS that the command submits to, in place of AWS."""
    sqs = MemorySqs(VirtualClock())

    def client(app: App, *, transport: BlockingTransport | None = None) -> Client:
        sqs.provision(app.topology)
        return Client(app, transport=transport or sqs.blocking)

    monkeypatch.setattr(headgate.ops.cli, "Client", client)
    return sqs


def run(
    arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """Run the command; return exit code, standard output and standard error."""
    monkeypatch.setattr(sys, "argv", ["headgate", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    captured = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, captured.out, captured.err


# --- durations -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        ("250ms", timedelta(milliseconds=250)),
        ("2d", timedelta(days=2)),
        ("0s", timedelta(0)),
    ],
)
def test_a_duration_is_read_by_its_units(text: str, expected: timedelta) -> None:
    assert duration(text) == duration(expected) == expected


@pytest.mark.parametrize("text", ["", "90", "1 h", "-5s", "5 minutes", "h", "1h-", "9" * 30 + "d"])
def test_what_is_no_duration_is_refused_in_words(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"is no duration|too long a duration"):
        duration(text)


# --- submit --------------------------------------------------------------------------------------


def test_submit_prints_the_id_of_the_job_that_sqs_has(sqs: MemorySqs) -> None:
    options = ["--delay", "1m30s", "--priority", "low", "--tenant", "org-1"]
    result = CliRunner().invoke(
        cli,
        ["submit", "cli_shop:app", "send-email", '{"to": "ada"}', *options],
    )
    assert result.exit_code == 0, result.output
    [message] = sqs.messages("shop-test-jobs-low")
    envelope = parse(message.body)
    assert result.stdout == f"{envelope.id}\n"
    assert envelope.payload == {"to": "ada"}
    assert message.group == "org-1"
    assert envelope.not_before == envelope.submitted_at + timedelta(seconds=90)


def test_submit_needs_no_payload_for_a_job_that_has_none(sqs: MemorySqs) -> None:
    result = CliRunner().invoke(cli, ["submit", "cli_shop:app", "nightly"])
    assert result.exit_code == 0, result.output
    [message] = sqs.messages("shop-test-jobs-normal")
    assert parse(message.body).payload == {}


def test_submit_reads_the_payload_from_standard_input_for_a_dash(sqs: MemorySqs) -> None:
    arguments = ["submit", "cli_shop:app", "send-email", "-"]
    result = CliRunner().invoke(cli, arguments, input='{"to": "ada"}\n')
    assert result.exit_code == 0, result.output
    assert len(sqs.messages("shop-test-jobs-normal")) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cli_shop", "send-email", "{}"], "'cli_shop' is no app path"),
        (["cli_none:app", "send-email", "{}"], "there is no module 'cli_none'"),
        (["cli_shop:app", "send-mail", "{}"], "no job type 'send-mail': did you mean 'send-email'"),
        (["cli_shop:app", "send-email", "{}"], "payload of 'send-email' is not valid: to: Field"),
        (
            ["cli_shop:app", "send-email", '{"to": "a"}', "--delay", "9999999d"],
            "after the year 9999",
        ),
        (["cli_shop:app", "send-email", '{"to": "a"}', "--tenant", "a b"], "tenant must be"),
    ],
)
@pytest.mark.usefixtures("sqs")
def test_a_submission_at_fault_is_one_line_on_standard_error_and_exit_code_2(
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(["submit", *arguments], monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert err.startswith("headgate: ")
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cli_shop:app", "send-email", "{to: a}"], "the payload is not JSON"),
        (["cli_shop:app", "send-email", "{}", "--delay", "soon"], "'soon' is no duration"),
        (["cli_shop:app", "send-email", "{}", "--priority", "urgent"], "'urgent' is not one of"),
    ],
)
@pytest.mark.usefixtures("sqs")
def test_an_argument_at_fault_is_explained_with_exit_code_2(
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(["submit", *arguments], monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert said in " ".join(err.replace("│", " ").split())


def test_an_error_of_aws_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def client(app: App) -> Client:
        return Client(app, transport=MemorySqs(VirtualClock()).blocking)

    monkeypatch.setattr(headgate.ops.cli, "Client", client)
    arguments = ["submit", "cli_shop:app", "send-email", '{"to": "a"}']
    code, out, err = run(arguments, monkeypatch, capsys)
    assert (code, out) == (1, "")
    assert err == f"headgate: {QueueMissing('shop-test-jobs-normal')}\n"


# --- worker --------------------------------------------------------------------------------------


class Started:
    """The settings that the command passed to the worker."""

    def __init__(self) -> None:
        self.app: App | None = None
        self.settings: WorkerSettings | None = None
        self.watching: Watching | None = None
        self.exit_code = 0
        self.error: Exception | None = None

    def run(self, app: App, settings: WorkerSettings, watching: Watching) -> int:
        self.app, self.settings, self.watching = app, settings, watching
        if self.error is not None:
            raise self.error
        return self.exit_code


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    started = Started()
    monkeypatch.setattr(headgate.workers.process.entry, "run", started.run)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield started
    root.handlers = handlers
    root.setLevel(level)


def test_the_worker_gets_its_settings_from_the_options(started: Started) -> None:
    options = ["--concurrency", "7", "--queues", "jobs, payments", "--drain", "1m"]
    options += ["--priorities", "critical, high"]
    options += ["--children", "3", "--health-port", "8080", "--health-host", "10.0.0.7", "--emf"]
    result = CliRunner().invoke(cli, ["worker", "cli_shop:app", *options])
    assert result.exit_code == 0, result.output
    assert started.app is not None
    assert started.app.name == "shop"
    assert started.settings is not None
    assert started.settings.concurrency == 7
    assert started.settings.queues == ("jobs", "payments")
    assert started.settings.priorities == (Priority.CRITICAL, Priority.HIGH)
    assert started.settings.drain == timedelta(minutes=1)
    assert started.settings.children == 3
    assert started.watching == Watching(port=8080, host="10.0.0.7", emf=True)


@pytest.mark.parametrize(
    ("options", "endpoint", "terminal", "wait_s"),
    [
        ([], "", True, 1),
        ([], "", False, None),
        ([], "http://localhost:4566", False, 1),
        ([], "http://127.0.0.1:4566", False, 1),
        ([], "https://sqs.eu-west-1.amazonaws.com", False, None),
        ([], "http://[", False, None),
        (["--receive-wait", "20s"], "http://localhost:4566", True, 20),
    ],
)
def test_polls_are_short_where_somebody_waits_for_the_worker_s_end(
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    endpoint: str,
    terminal: bool,
    wait_s: float | None,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setattr("sys.stdin", _Stdin(terminal))
    assert run(["worker", "cli_shop:app", *options], monkeypatch, capsys)[0] == 0
    assert started.settings is not None
    wait = started.settings.receive_wait
    assert wait == (None if wait_s is None else timedelta(seconds=wait_s))


def test_a_poll_that_does_not_wait_is_refused(
    started: Started, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["worker", "cli_shop:app", "--receive-wait", "0s"]
    code, _, said = run(arguments, monkeypatch, capsys)
    assert code == 2
    assert "receive_wait must lie between 1 and 20 s" in said
    assert started.settings is None


class _Stdin:
    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def test_the_worker_takes_the_app_from_the_environment_where_none_is_named(
    started: Started, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(["worker"], monkeypatch, capsys)
    assert code == 2
    assert "set HEADGATE_APP" in err
    monkeypatch.setenv("HEADGATE_APP", "cli_shop:app")
    assert run(["worker"], monkeypatch, capsys)[0] == 0
    assert started.settings == WorkerSettings()


def test_the_worker_s_exit_code_is_the_command_s(
    started: Started, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started.exit_code = 3
    assert run(["worker", "cli_shop:app"], monkeypatch, capsys)[0] == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--concurrency", "0"], "concurrency must lie between 1 and 1000, got 0"),
        (["--priorities", "critical,hgih"], "there is no priority 'hgih': did you mean 'high'?"),
        (["--log-level", "loud"], "there is no log level 'loud'"),
        (["--drain", "soon"], "'soon' is no duration"),
    ],
)
@pytest.mark.usefixtures("started")
def test_an_option_of_the_worker_at_fault_is_explained_with_exit_code_2(
    options: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = run(["worker", "cli_shop:app", *options], monkeypatch, capsys)
    assert code == 2
    assert said in " ".join(err.replace("│", " ").split())


def test_a_queue_that_the_worker_s_app_lacks_is_exit_code_2(
    started: Started, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started.error = UnknownQueue("the app 'shop' has no queue 'mail'")
    code, _, err = run(["worker", "cli_shop:app", "--queues", "mail"], monkeypatch, capsys)
    assert (code, err) == (2, "headgate: the app 'shop' has no queue 'mail'\n")


# --- check and plan ------------------------------------------------------------------------------

FAULTY = """

from headgate import cron

class Nothing(BaseModel):
    pass

@app.job("new-year", schedule=cron("0 0 31 6 ? *"))
def new_year(nothing: Nothing) -> None: ...
"""


def test_an_app_without_faults_passes_the_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(["check", "cli_shop:app"], monkeypatch, capsys)
    assert (code, out) == (0, "no faults\n")
    code, out, _ = run(["check", "cli_shop:app", "--json"], monkeypatch, capsys)
    assert (code, json.loads(out)) == (0, [])


def test_a_fault_is_exit_code_1_and_one_line_that_names_its_rule(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "cli_shop.py").write_text(textwrap.dedent(APP + FAULTY))
    code, out, _ = run(["check", "cli_shop:app"], monkeypatch, capsys)
    assert code == 1
    assert out.startswith("error: type new-year: cron(0 0 31 6 ? *) has no date")
    assert out.endswith("[schedule-never-fires]\n")
    code, out, _ = run(["check", "cli_shop:app", "--json"], monkeypatch, capsys)
    assert [fault["rule"] for fault in json.loads(out)] == ["schedule-never-fires"]
    assert code == 1


def test_the_check_looks_at_the_deployment_that_cdk_json_describes(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unfit = {"workers": [{"priorities": ["low"]}]}
    (here / "cdk.json").write_text(json.dumps({"context": {"headgate:deployment": unfit}}))
    code, out, _ = run(["check", "cli_shop:app"], monkeypatch, capsys)
    assert code == 1
    assert "nobody serves the queue" in out
    assert out.endswith("[deployment-unfit]\n")


def test_a_plan_shows_when_each_attempt_comes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(["plan", "cli_shop:app", "send-email"], monkeypatch, capsys)
    assert code == 0
    assert "0 s to 3 s" in out
    code, out, _ = run(["plan", "cli_shop:app", "send-email", "--json"], monkeypatch, capsys)
    assert [each["latest_s"] for each in json.loads(out)] == [0, 1, 3]


def test_a_type_that_the_app_lacks_has_no_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(["plan", "cli_shop:app", "send-emial"], monkeypatch, capsys)
    assert code == 2
    assert "did you mean 'send-email'?" in err


# --- the command itself --------------------------------------------------------------------------


def test_the_installed_command_lists_its_subcommands() -> None:
    answered = subprocess.run(
        [sys.executable, "-c", "from headgate.ops.cli import main; main()", "--help"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answered.returncode == 0, answered.stderr
    for command in ("worker", "submit", "check", "plan", "demo"):
        assert command in answered.stdout


def test_a_duration_is_shown_as_its_option_takes_it() -> None:
    command: Any = typer.main.get_command(cli)
    shown = {
        option.name: (option.show_default, option.default)
        for each in command.commands.values()
        for option in each.params
        if isinstance(option.default, timedelta)
    }
    assert shown.keys() >= {"drain", "queue_grace"}
    for words, default in shown.values():
        assert duration(words) == default
    said = CliRunner().invoke(cli, ["worker", "--help"], terminal_width=200).output
    assert "22s" in said
    assert "0:00:22" not in said


@pytest.mark.parametrize("text", ["0:00:22", "22", "-5s", "5 s", "", "1e3s", "\u0662s"])
def test_what_is_no_duration_is_refused_with_one_that_is(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="write 90s, 15m, 1h or 1h30m"):
        duration(text)


@pytest.mark.parametrize("text", ["22s", "2m", "90m", "1h", "3d", "250ms", "0d"])
def test_a_duration_in_words_is_read_as_it_was_said(text: str) -> None:
    assert duration(in_words(duration(text))) == duration(text)
