"""``headgate queues``."""

from __future__ import annotations

import asyncio
import io
import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from headgate import Client, Priority, load_app
from headgate.jobs.client.overview.queues import QueueList
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import AccessDenied, ServiceUnavailable, Throttled, TransportError
from headgate.jobs.records.fleet.worker_status import TenantHeld, status_item
from headgate.jobs.testing import MemoryMetrics, MemorySqs, MemoryTable, VirtualClock
from headgate.ops.views.overview.queue_drain import EXIT_NOT_DRAINED, SETTLED_S, QueueDrain
from headgate.ops.views.overview.queue_watch import QueueScreen
from headgate.ops.views.overview.queues import EXIT_MISSING
from headgate.ops.views.pauses import EXIT_NOT_PAUSED
from tests.support.backends import over
from tests.support.command_line import CommandLine, Ended
from tests.support.statuses import STATUS

APP = "cli_shop:app"


@pytest.fixture(autouse=True)
def _four(here: Path) -> None:
    """Let the app have a queue for each priority."""
    declared = (here / "cli_shop.py").read_text()
    (here / "cli_shop.py").write_text(
        declared.replace('App("shop"', 'App("shop", priorities="all"')
    )


@pytest.fixture
def table() -> MemoryTable:
    """The table that the command's client asks, in place of AWS's."""
    return MemoryTable(SystemClock())


@pytest.fixture
def metrics() -> MemoryMetrics:
    """The CloudWatch that the command's client asks."""
    return MemoryMetrics()


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch, table: MemoryTable, metrics: MemoryMetrics) -> MemorySqs:
    """The SQS that the command's client asks."""
    sqs = MemorySqs(VirtualClock())
    backend = over(sqs.sync, table=table.sync, metrics=metrics.sync)
    monkeypatch.setattr(
        "headgate.jobs.client.client.Client", lambda app: Client(app, backend=backend)
    )
    return sqs


@pytest.fixture
def deployed(sqs: MemorySqs, monkeypatch: pytest.MonkeyPatch) -> MemorySqs:
    monkeypatch.syspath_prepend(".")
    sqs.provision(load_app(APP).topology)
    return sqs


def queues(headgate: CommandLine, *options: str) -> Ended:
    return headgate("queues", "list", *options, app=APP)


async def _fill(sqs: MemorySqs) -> None:
    delayed = OutgoingMessage(body="{}", delay_s=60)
    await sqs.send("shop-test-jobs-high", [OutgoingMessage(body="{}")] * 3)
    await sqs.receive("shop-test-jobs-high", limit=1, wait_s=0)
    await sqs.send("shop-test-jobs-low", [delayed])
    await sqs.send("shop-test-jobs-low-dlq", [OutgoingMessage(body="{}"), delayed])
    await sqs.send("shop-test-quarantine", [OutgoingMessage(body="{}")])


def test_each_queue_is_shown_with_its_messages(deployed: MemorySqs, headgate: CommandLine) -> None:
    asyncio.run(_fill(deployed))
    ended = queues(headgate, "--json")
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    by_priority = {each["priority"]: each for each in found["queues"]}
    assert list(by_priority) == ["critical", "high", "normal", "low"]
    assert by_priority["high"] == {
        "queue": "jobs",
        "priority": "high",
        "name": "shop-test-jobs-high",
        "waiting": 2,
        "in_flight": 1,
        "delayed": 0,
        "dead": 0,
        "oldest_s": None,
        "sent_per_minute": None,
        "deleted_per_minute": None,
        "failed_per_minute": None,
        "is_received_from": None,
        "noisy_tenants": None,
        "workers": [],
        "tenants": {},
    }
    assert (by_priority["low"]["delayed"], by_priority["low"]["dead"]) == (1, 2)
    assert found["quarantine"] == {"name": "shop-test-quarantine", "messages": 1}


def rows(shown: str) -> dict[str, list[str]]:
    """Return the rows of a table that is shown, by their first cell."""
    cells = (line.strip("│").split("│") for line in shown.splitlines() if line.startswith("│"))
    return {first.strip(): [cell.strip() for cell in rest] for first, *rest in cells}


def test_the_table_has_a_row_for_each_queue_and_fits_80_columns(
    deployed: MemorySqs,
    metrics: MemoryMetrics,
    headgate: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    asyncio.run(_fill(deployed))
    name = "shop-test-jobs-high"
    metrics.put(name, "ApproximateAgeOfOldestMessage", 30, 90)
    metrics.put(name, "NumberOfMessagesSent", 100, 140)
    metrics.put(name, "NumberOfMessagesDeleted", 90, 90)
    metrics.put(name, "ApproximateNumberOfNoisyGroups", 0, 2)
    ended = queues(headgate)
    assert max(map(len, ended.out.splitlines())) <= 80
    found = rows(ended.out)
    assert found["jobs high"] == ["2", "1", "0", "0", "1m", "120/90", "0"]
    assert found["jobs low"] == ["0", "0", "1", "2", "?", "?", "0"]
    assert ended.out.endswith("\nIn quarantine: 1\njobs high: 2 tenants delay the others\n")


@pytest.mark.usefixtures("deployed")
def test_what_cloudwatch_does_not_tell_is_unknown_and_said(
    metrics: MemoryMetrics, headgate: CommandLine
) -> None:
    metrics.fail(AccessDenied("not allowed: cloudwatch:GetMetricData"))
    ended = queues(headgate)
    assert (ended.code, ended.err) == (0, "")
    assert "\nmetrics can't be read: not allowed: cloudwatch:GetMetricData\n" in ended.out
    assert rows(ended.out)["jobs high"] == ["0", "0", "0", "0", "?", "?", "0"]


@pytest.mark.usefixtures("deployed")
def test_live_workers_are_counted_by_the_queues_that_they_poll(
    table: MemoryTable, headgate: CommandLine
) -> None:
    at = SystemClock().now()
    polls = {"jobs": [Priority.CRITICAL, Priority.HIGH]}
    asyncio.run(table.put([status_item(replace(STATUS, seen_at=at, polls=polls))]))
    listed = json.loads(queues(headgate, "--json").out)["queues"]
    found = {each["priority"]: each for each in listed}
    assert found["high"]["workers"] == [STATUS.name]
    assert found["low"]["workers"] == []


@pytest.mark.usefixtures("deployed")
def test_a_note_on_noisy_tenants_names_those_of_which_workers_hold_most(
    metrics: MemoryMetrics, table: MemoryTable, headgate: CommandLine
) -> None:
    metrics.put("shop-test-jobs-high", "ApproximateNumberOfNoisyGroups", 1)
    tenants = [
        TenantHeld(tenant=f"org-{n}", queue="jobs", priority=Priority.HIGH, held=1_500 - n)
        for n in range(4)
    ]
    status = replace(STATUS, seen_at=SystemClock().now(), tenants=tenants)
    asyncio.run(table.put([status_item(status)]))
    assert (
        "jobs high: 1 tenant delays the others; workers hold 1,500 of org-0, 1,499 of org-1, "
        "1,498 of org-2\n"
    ) in queues(headgate).out


# --- watching ------------------------------------------------------------------------------------


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between looks, which take no time: each of them passes on a clock of its own."""
    passed: list[float] = []
    monkeypatch.setattr("headgate.ops.views.overview.queue_watch.time.sleep", passed.append)
    monkeypatch.setattr(
        "headgate.ops.views.overview.queue_watch.time.monotonic", lambda: sum(passed)
    )
    return passed


@pytest.mark.usefixtures("deployed")
def test_in_a_pipe_each_look_is_printed(headgate: CommandLine, pauses: list[float]) -> None:
    ended = queues(headgate, "--watch", "--count", "3", "--every", "5s")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("In quarantine: 0") == 3
    assert pauses == [5, 5], "none follows the last look"


def test_a_script_gets_a_line_for_each_look_with_the_changes_since_the_one_before(
    deployed: MemorySqs,
    headgate: CommandLine,
    pauses: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def arrive(seconds: float) -> None:
        pauses.append(seconds)
        deployed.sync.send("shop-test-jobs-high", [OutgoingMessage(body="{}")] * 3)

    monkeypatch.setattr("headgate.ops.views.overview.queue_watch.time.sleep", arrive)
    ended = queues(headgate, "--watch", "--count", "2", "--json")
    first, second = map(json.loads, ended.out.splitlines())
    assert first["changes"] == {}
    assert second["changes"]["shop-test-jobs-high"] == 90, "3 in 2 s"
    assert second["changes"]["shop-test-jobs-low"] == 0


def test_a_look_that_fails_is_said_and_the_next_one_is_made(
    deployed: MemorySqs, headgate: CommandLine, pauses: list[float]
) -> None:
    for error in (Throttled("SQS is too busy"), ServiceUnavailable("SQS is away")):
        deployed.faults.raise_on("depth", error, queue="shop-test-quarantine")
    ended = queues(headgate, "--watch", "--count", "3")
    assert ended.code == 0
    assert ended.err == "headgate: SQS is too busy\nheadgate: SQS is away\n"
    assert ended.out.count("In quarantine: 0") == 1
    assert pauses == [4, 2], "a throttled one waits for longer"


def test_a_queue_that_does_not_exist_is_named_in_each_look(
    deployed: MemorySqs, headgate: CommandLine, pauses: list[float]
) -> None:
    del deployed._queues["shop-test-jobs-low"]
    ended = queues(headgate, "--watch", "--count", "2")
    assert ended.code == 0
    assert ended.out.count("missing: shop-test-jobs-low\n") == 2
    assert rows(ended.out)["jobs low"][0] == "missing"
    assert len(pauses) == 1


@pytest.mark.usefixtures("deployed")
def test_ctrl_c_ends_it_in_order(headgate: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headgate.ops.views.overview.queue_watch.time.sleep", interrupted)
    ended = queues(headgate, "--watch")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("In quarantine: 0") == 1


def test_on_a_terminal_the_last_look_stays(deployed: MemorySqs) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    with Client(load_app(APP), backend=over(deployed.sync)) as client, QueueScreen(console) as live:
        live.show(client.queues.list(), {"shop-test-jobs-high": 12.0})
        live.tell("SQS is \x1b[2J away")
    shown = screen.getvalue()
    assert "+12" in shown
    assert r"not read: SQS is \x1b[2J away" in shown


@pytest.mark.usefixtures("deployed")
def test_looking_more_often_than_each_second_is_refused(headgate: CommandLine) -> None:
    ended = queues(headgate, "--watch", "--every", "500ms")
    assert ended.code == 2
    assert "--every must be at least 1s, got 0.5s" in ended.err


def test_queues_that_do_not_exist_are_named_beside_the_others(
    deployed: MemorySqs, headgate: CommandLine
) -> None:
    del deployed._queues["shop-test-jobs-low"]
    ended = queues(headgate, "--json")
    assert ended.code == EXIT_MISSING
    assert ended.err == (
        "headgate: these queues don't exist: shop-test-jobs-low. `cdk deploy` creates them, unless "
        "the version here is not the deployed one\n"
    )
    waiting = {each["priority"]: each["waiting"] for each in json.loads(ended.out)["queues"]}
    assert waiting == {"critical": 0, "high": 0, "normal": 0, "low": None}


def test_an_sqs_that_refuses_ends_it_with_1(deployed: MemorySqs, headgate: CommandLine) -> None:
    deployed.faults.raise_on("depth", Throttled("SQS is too busy"))
    assert queues(headgate) == Ended(1, "", "headgate: SQS is too busy\n")


# --- pause and resume ----------------------------------------------------------------------------


def run(headgate: CommandLine, *words: str, app: str = APP) -> Ended:
    return headgate("queues", *words, app=app)


@pytest.mark.usefixtures("deployed")
def test_a_paused_queue_is_listed_with_its_reason_until_it_is_resumed(
    headgate: CommandLine,
) -> None:
    paused = run(headgate, "pause", "jobs", "--for", "2h", "--reason", "a migration")
    assert (paused.code, paused.err) == (0, "")
    assert paused.out.startswith("paused: the queue 'jobs', since ")
    assert paused.out.endswith(" UTC: a migration\n")
    assert paused.out in queues(headgate).out

    [listed] = json.loads(queues(headgate, "--json").out)["paused"]
    assert {name: listed[name] for name in ("kind", "name", "priority", "reason")} == {
        "kind": "queue",
        "name": "jobs",
        "priority": None,
        "reason": "a migration",
    }
    assert "@" in listed["actor"]
    since, until = (datetime.fromisoformat(listed[name]) for name in ("since", "until"))
    assert until - since == timedelta(hours=2)

    assert run(headgate, "resume", "jobs") == Ended(0, "resumed\n", "")
    assert json.loads(queues(headgate, "--json").out)["paused"] == []


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jobs", "--priority", "low"], "the queue 'jobs' with the priority low"),
        (["--type", "send-email"], "the type 'send-email'"),
        (["--tenant", "org-1"], "the tenant 'org-1'"),
    ],
)
def test_a_priority_a_type_or_a_tenant_is_paused_and_resumed(
    words: list[str], said: str, headgate: CommandLine
) -> None:
    assert f"paused: {said}, since " in run(headgate, "pause", *words).out
    assert f"paused: {said}, since " in queues(headgate).out
    assert run(headgate, "resume", *words).code == 0
    assert "paused" not in queues(headgate).out


@pytest.mark.usefixtures("deployed")
def test_resuming_what_is_not_paused_ends_with_1_and_says_what_is(headgate: CommandLine) -> None:
    run(headgate, "pause", "jobs", "--priority", "low")
    ended = run(headgate, "resume", "jobs")
    assert ended.code == EXIT_NOT_PAUSED
    assert ended.out.startswith("it was not paused\npaused: the queue 'jobs' with the priority low")


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name one queue, or one --type, or one --tenant"),
        (["jobs", "--tenant", "org-1"], "name one queue, or one --type, or one --tenant"),
        (["--tenant", "org-1", "--priority", "low"], "only queues have priorities"),
        (["jobz"], "did you mean 'jobs'"),
        (["nightly"], "'nightly' is a job type and no queue: write --type nightly"),
        (["--type", "send-mail"], "did you mean 'send-email'"),
        (["jobs", "--for", "9d"], "can be paused for at most 3 days"),
        (["jobs", "--for", "soon"], "is not a duration"),
        (["jobs", "--reason", "x" * 301], "reason has at most 300 characters"),
    ],
)
def test_a_pause_that_names_nothing_or_lasts_too_long_ends_with_2(
    words: list[str], said: str, headgate: CommandLine
) -> None:
    ended = run(headgate, "pause", *words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


@pytest.mark.usefixtures("deployed")
def test_a_table_that_can_not_be_read_hides_no_queue(
    headgate: CommandLine, table: MemoryTable
) -> None:
    table.missing = True
    found = json.loads(queues(headgate, "--json").out)
    assert (found["paused"], len(found["queues"])) == (None, 4)
    assert list(found["unknown"]) == ["workers", "pauses"]
    shown = queues(headgate)
    assert (shown.code, shown.err) == (0, "")
    assert "\nworkers can't be read: " in shown.out
    assert "\npauses can't be read: " in shown.out


# --- drain ---------------------------------------------------------------------------------------


class Looks:
    """Queues whose counts change with time, which passes in `sleep` alone."""

    def __init__(self, listed: QueueList, *in_flight: int | TransportError) -> None:
        self.now_s = 0.0
        self._listed = listed
        self._in_flight = [*in_flight]

    def list(self) -> QueueList:
        each = self._in_flight.pop(0) if len(self._in_flight) > 1 else self._in_flight[0]
        if isinstance(each, TransportError):
            raise each
        [*others, last] = self._listed.queues
        return replace(self._listed, queues=[*others, replace(last, in_flight=each)])

    def drain(self, priority: Priority | None = None, timeout_s: float | None = None) -> int:
        return QueueDrain(
            self,
            "jobs",
            priority,
            every_s=5,
            timeout_s=timeout_s,
            clock=lambda: self.now_s,
            sleep=self.sleep,
        ).wait()

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def listed(deployed: MemorySqs) -> QueueList:
    with Client(load_app(APP), backend=over(deployed.sync)) as client:
        return client.queues.list()


def test_a_queue_is_drained_once_it_has_been_empty_for_a_minute(
    listed: QueueList, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = Looks(listed, 2, 0, 1, ServiceUnavailable("away"), 0)
    assert looks.drain() == 0
    assert looks.now_s == 4 * 5 + SETTLED_S
    shown = capsys.readouterr().out.splitlines()
    assert [line.rpartition(": ")[2] for line in shown[:-1]] == [
        f"0 waiting, {count} in flight, 0 delayed" for count in (2, 0, 1, 0)
    ]
    assert shown[-1] == "jobs is empty"


def test_a_queue_that_does_not_empty_in_time_is_told_by_the_exit_code(
    listed: QueueList, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Looks(listed, 1).drain(timeout_s=90) == EXIT_NOT_DRAINED
    assert "jobs was not empty within 90 s" in capsys.readouterr().err


@pytest.mark.usefixtures("sqs")
def test_a_queue_that_does_not_exist_is_not_taken_for_an_empty_one(headgate: CommandLine) -> None:
    """As in another region than the one that is meant."""
    ended = headgate("queues", "drain", "jobs", app=APP)
    assert ended.code == EXIT_NOT_DRAINED
    assert "jobs does not exist here" in ended.err
    assert "is empty" not in ended.out


def test_a_single_priority_is_drained_whatever_the_others_hold(listed: QueueList) -> None:
    assert listed.queues[-1].priority is Priority.LOW
    assert Looks(listed, 1).drain(Priority.HIGH) == 0
    assert Looks(listed, 1).drain(Priority.LOW, timeout_s=90) == EXIT_NOT_DRAINED


@pytest.mark.parametrize("named", [("mails",), ("jobs", "--every", "0s")])
@pytest.mark.usefixtures("deployed")
def test_a_queue_or_pace_that_makes_no_sense_is_refused(
    headgate: CommandLine, named: tuple[str, ...]
) -> None:
    assert headgate("queues", "drain", *named, app=APP).code == 2
