"""``headgate worker``: what its options make of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from headgate import App, Priority
from headgate.jobs.errors import UnknownQueue
from headgate.workers.configuration import ObservabilitySettings, WorkerSettings
from tests.support.command_line import CommandLine
from tests.support.loggers import restored


class Started:
    """The settings that the command passed to the worker."""

    def __init__(self) -> None:
        self.app: App | None = None
        self.settings: WorkerSettings | None = None
        self.watching: ObservabilitySettings | None = None
        self.exit_code = 0
        self.error: Exception | None = None

    def run(self, app: App, settings: WorkerSettings, watching: ObservabilitySettings) -> int:
        self.app, self.settings, self.watching = app, settings, watching
        if self.error is not None:
            raise self.error
        return self.exit_code


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    started = Started()
    monkeypatch.setattr("headgate.workers.process.entry.run", started.run)
    with restored(None):
        yield started


def test_the_worker_gets_its_settings_from_the_options(
    started: Started, headgate: CommandLine
) -> None:
    options = ["--concurrency", "7", "--queues", "jobs, payments", "--drain", "1m"]
    options += ["--priorities", "critical, high"]
    options += ["--children", "3", "--health-port", "8080", "--health-host", "10.0.0.7", "--emf"]
    ended = headgate("worker", "cli_shop:app", *options)
    assert ended.code == 0, ended.err
    assert started.app is not None
    assert started.app.name == "shop"
    assert started.settings is not None
    assert started.settings.concurrency == 7
    assert started.settings.queues == ("jobs", "payments")
    assert started.settings.priorities == (Priority.CRITICAL, Priority.HIGH)
    assert started.settings.drain == timedelta(minutes=1)
    assert started.settings.children == 3
    assert started.watching == ObservabilitySettings(port=8080, host="10.0.0.7", emf=True)


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
    headgate: CommandLine,
    options: list[str],
    endpoint: str,
    terminal: bool,
    wait_s: float | None,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setattr("sys.stdin", _Stdin(terminal))
    assert headgate("worker", "cli_shop:app", *options).code == 0
    assert started.settings is not None
    wait = started.settings.receive_wait
    assert wait == (None if wait_s is None else timedelta(seconds=wait_s))


def test_a_poll_that_does_not_wait_is_refused(started: Started, headgate: CommandLine) -> None:
    ended = headgate("worker", "cli_shop:app", "--receive-wait", "0s")
    assert ended.code == 2
    assert "receive_wait must lie between 1 and 20 s" in ended.err
    assert started.settings is None


class _Stdin:
    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def test_the_worker_takes_its_app_from_the_argument_the_option_or_the_environment(
    started: Started, monkeypatch: pytest.MonkeyPatch, headgate: CommandLine
) -> None:
    for words in (["worker", "cli_shop:app"], ["-A", "cli_shop:app", "worker"]):
        assert headgate(*words).code == 0
    monkeypatch.setenv("HEADGATE_APP", "cli_shop:app")
    assert headgate("worker").code == 0
    assert started.settings == WorkerSettings()
    monkeypatch.setenv("HEADGATE_APP", "cli_none:app")
    assert headgate("worker", "cli_shop:app").code == 0


def test_a_worker_without_an_app_and_one_with_two_are_refused(
    started: Started, headgate: CommandLine
) -> None:
    ended = headgate("worker")
    assert ended.code == 2
    assert "no app is named: write headgate worker shop.app:app, or set HEADGATE_APP" in ended.err
    ended = headgate("worker", "cli_shop:app", app="cli_shop:silent")
    assert ended.code == 2
    assert "two apps are named, cli_shop:silent and cli_shop:app" in ended.err
    assert started.app is None


def test_the_worker_s_exit_code_is_the_command_s(started: Started, headgate: CommandLine) -> None:
    started.exit_code = 3
    assert headgate("worker", "cli_shop:app").code == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--concurrency", "0"], "concurrency must lie between 1 and 1000, got 0"),
        (["--priorities", "critical,hgih"], "there is no priority 'hgih': did you mean 'high'?"),
        (["--log-level", "loud"], "there is no log level 'loud'"),
        (["--drain", "soon"], "'soon' is not a duration"),
    ],
)
@pytest.mark.usefixtures("started")
def test_an_option_of_the_worker_at_fault_is_explained_with_exit_code_2(
    options: list[str], said: str, headgate: CommandLine
) -> None:
    ended = headgate("worker", "cli_shop:app", *options)
    assert ended.code == 2
    assert said in ended.err


def test_a_queue_that_the_worker_s_app_lacks_is_exit_code_2(
    started: Started, headgate: CommandLine
) -> None:
    started.error = UnknownQueue("the app 'shop' has no queue 'mail'")
    ended = headgate("worker", "cli_shop:app", "--queues", "mail")
    assert (ended.code, ended.err) == (2, "headgate: the app 'shop' has no queue 'mail'\n")
