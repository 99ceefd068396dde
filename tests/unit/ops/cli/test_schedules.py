"""``headgate schedules``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headgate import App, Client, Schedule, ScheduleInfo, UnreadableSchedule, cron, load_app
from headgate.jobs.client.schedules.schedules import Schedules
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.retention import DEFAULT_KEEP
from headgate.jobs.errors import ScheduleGroupMissing
from headgate.jobs.messages.envelope import parse
from headgate.jobs.records.items import Mark, Scribe
from headgate.jobs.testing import MemoryScheduler, MemorySqs, MemoryTable, VirtualClock
from tests.support.backends import over
from tests.support.command_line import CommandLine, Ended

APP = "cli_shop:app"
NIGHTLY = cron("0 2 * * ? *", timezone="Europe/Berlin")


class Shop:
    """The commands, on an in-memory app."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, headgate: CommandLine) -> None:
        self.scheduler = MemoryScheduler(SystemClock())
        self.sqs = MemorySqs(SystemClock())
        self.table = MemoryTable(SystemClock())
        self._headgate = headgate
        monkeypatch.syspath_prepend(".")
        monkeypatch.setattr("headgate.jobs.client.client.Client", self.client)

    def client(self, app: App) -> Client:
        self.sqs.provision(app.topology)
        backend = over(self.sqs.sync, scheduler=self.scheduler.sync, table=self.table.sync)
        return Client(app, backend=backend)

    def create(self, name: str, when: Schedule = NIGHTLY) -> None:
        app = load_app(APP)
        email = sys.modules["cli_shop"].Email(to="ada")
        self.client(app).schedules.create(name, app.find_type("send-email"), email, schedule=when)

    def run(self, *words: str, app: str | None = APP) -> Ended:
        """Run a command."""
        return self._headgate("schedules", *words, app=app)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, headgate: CommandLine) -> Shop:
    return Shop(monkeypatch, headgate)


def test_a_list_shows_each_schedule_with_its_times_and_its_state(shop: Shop) -> None:
    shop.create("nightly")
    shop.create("often", Schedule.rate(timedelta(hours=1)))
    shop.run("pause", "often")
    ended = shop.run("list")
    assert ended.code == 0
    [nightly] = [line for line in ended.out.splitlines() if "nightly" in line]
    assert "send-email" in nightly
    assert "cron(0 2 * * ? *)" in nightly
    assert "Europe/Berlin" in nightly
    [often] = [line for line in ended.out.splitlines() if "often" in line]
    assert "paused" in often


def test_a_list_as_json_can_be_read_by_a_program(shop: Shop) -> None:
    shop.create("nightly")
    ended = shop.run("list", "--json")
    [nightly] = json.loads(ended.out)
    assert ended.code == 0
    assert datetime.fromisoformat(nightly.pop("next")[0]).minute == 0
    assert nightly == {
        "name": "nightly",
        "job_type": "send-email",
        "expression": "cron(0 2 * * ? *)",
        "timezone": "Europe/Berlin",
        "enabled": True,
        "declared": False,
        "moved": False,
        "declared_expression": None,
        "start": None,
        "end": None,
        "flexible_window_s": None,
    }


def test_a_list_names_what_is_declared_and_not_deployed_and_ends_with_1(
    shop: Shop, here: Path
) -> None:
    with (here / "cli_shop.py").open("a") as file:
        file.write(
            "from datetime import timedelta\n"
            "from headgate import Schedule\n"
            "@app.job('sync', schedule=Schedule.rate(timedelta(hours=1)))\n"
            "def sync() -> None: ...\n"
        )
    shop.create("nightly")
    ended = shop.run("list")
    assert ended.code == 1
    assert "nightly" in ended.out
    said = "sync is declared in the code, and not deployed here: `cdk deploy` creates it"
    assert ended.err == f"headgate: {said}\n"
    assert shop.run("list", "nightly").code == 0


def test_a_list_of_one_shows_that_one_alone(shop: Shop) -> None:
    shop.create("nightly")
    shop.create("other")
    found = json.loads(shop.run("list", "other", "--json").out)
    assert [each["name"] for each in found] == ["other"]


def test_a_schedule_that_cannot_be_read_is_shown_beside_the_others(shop: Shop) -> None:
    shop.create("nightly")
    shop.create("odd")
    odd = shop.scheduler.schedules[1]
    shop.scheduler.replace(replace(odd, input="{}"))
    ended = shop.run("list")
    assert ended.code == 0
    assert "nightly" in ended.out
    [line] = [line for line in ended.out.splitlines() if "odd" in line]
    assert "unreadable" in line
    assert ended.err.startswith("headgate: the schedule 'odd' can't be read: ")
    nightly, unreadable = json.loads(shop.run("list", "--json").out)
    assert nightly["job_type"] == "send-email"
    assert (unreadable["name"], unreadable["declared"]) == ("odd", False)
    assert "is not that of a Headgate schedule" in unreadable["unreadable"]
    ended = shop.run("next", "--json")
    assert list(json.loads(ended.out)) == ["nightly"]
    assert ended.err.startswith("headgate: the schedule 'odd' can't be read: ")


def test_next_shows_so_many_times_of_one_or_of_all(shop: Shop) -> None:
    shop.create("nightly")
    ended = shop.run("next", "nightly", "--count", "3")
    assert ended.code == 0
    assert len(ended.out.splitlines()) == 3
    assert all(line.endswith(":00 UTC  nightly") for line in ended.out.splitlines())
    found = json.loads(shop.run("next", "--count", "2", "--json").out)
    assert {name: len(times) for name, times in found.items()} == {"nightly": 2}


def test_runs_show_the_last_times_and_what_is_recorded_of_their_jobs(shop: Shop) -> None:
    now = datetime.now(UTC)
    shop.scheduler = MemoryScheduler(VirtualClock(now - timedelta(hours=5.5)))
    shop.create("often", cron("0 * * * ? *"))
    first, second, *others = json.loads(shop.run("runs", "often", "--count", "4", "--json").out)
    assert len(others) == 2
    assert now - timedelta(hours=1) < datetime.fromisoformat(first["due"]) <= datetime.now(UTC)
    assert first["due"] > second["due"]
    assert (first["state"], first["finished_at"]) == (None, None)
    job_id = first["job_id"]
    worker = Scribe(
        job_id=job_id,
        message_id="m",
        receive=1,
        job_type="send-email",
        queue="jobs",
        worker="w",
        level="outcomes",
        keep=DEFAULT_KEEP,
        retention=timedelta(days=4),
    )
    shop.table.sync.put([worker.mark(Mark.COMPLETED, now, {"attempt": 1, "ran_s": 0.1})])
    [line] = [line for line in shop.run("runs", "often").out.splitlines() if job_id in line]
    assert "completed" in line
    assert f"{now:%Y-%m-%d %H:%M:%S}" in line


def test_runs_say_what_it_means_that_nothing_is_recorded_of_one(shop: Shop) -> None:
    shop.scheduler = MemoryScheduler(VirtualClock(datetime.now(UTC) - timedelta(hours=2.5)))
    shop.create("often", cron("0 * * * ? *"))
    ended = shop.run("runs", "often")
    assert "?: nothing is recorded of that job: it waits, was never submitted" in ended.out
    assert "?" not in shop.run("runs", "often", "--json").out


def test_a_name_that_no_schedule_has_leads_to_the_list_of_them(shop: Shop) -> None:
    ended = shop.run("run", "nihgtly")
    assert ended.code == 2
    assert "headgate schedules list" in ended.err


def test_pause_and_resume_switch_a_schedule(shop: Shop) -> None:
    shop.create("nightly")
    assert shop.run("pause", "nightly") == Ended(0, "nightly is paused\n", "")
    assert not shop.scheduler.schedules[0].enabled
    assert shop.run("resume", "nightly") == Ended(0, "nightly fires again\n", "")
    assert shop.scheduler.schedules[0].enabled


def test_a_pause_keeps_its_reason_in_the_audit(shop: Shop) -> None:
    shop.create("nightly")
    shop.run("pause", "nightly", "--reason", "their API is down")
    [paused, _] = shop.client(load_app(APP)).audit.list().entries
    assert (paused.action, paused.reason) == ("pause-schedule", "their API is down")


def test_reschedule_changes_the_times_and_reset_needs_a_declaration(shop: Shop) -> None:
    shop.create("nightly")
    ended = shop.run("reschedule", "nightly", "cron(0 3 * * ? *)", "--timezone", "Europe/Paris")
    assert (ended.code, ended.out) == (0, "nightly fires at cron(0 3 * * ? *) Europe/Paris\n")
    [stored] = shop.scheduler.schedules
    assert (stored.expression, stored.timezone) == ("cron(0 3 * * ? *)", "Europe/Paris")
    assert shop.run("reschedule", "nightly", "0 3 * * *").code == 2
    refused = shop.run("reset", "nightly")
    assert refused.code == 2
    assert "declares a schedule 'nightly'" in " ".join(refused.err.split())


def test_reschedule_keeps_the_end_the_window_and_the_time_zone(shop: Shop) -> None:
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    start, window = end - timedelta(days=2), timedelta(minutes=10)
    when = replace(NIGHTLY, start=start, end=end, flexible_window=window)
    shop.create("promo", when)
    ended = shop.run("reschedule", "promo", "cron(0 3 * * ? *)")
    said = f"from {start}, until {end}, spread over 0:10:00"
    assert ended == Ended(0, f"promo fires at cron(0 3 * * ? *) Europe/Berlin, {said}\n", "")
    moved = shop.client(load_app(APP)).schedules.get("promo").when
    assert moved == replace(when, expression="cron(0 3 * * ? *)")


def test_reschedule_says_what_does_not_go_with_the_new_times(shop: Shop) -> None:
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    shop.create("promo", replace(NIGHTLY, end=end))
    ended = shop.run("reschedule", "promo", f"at({end + timedelta(days=9):%Y-%m-%dT%H:%M:%S})")
    assert ended.code == 0
    assert ended.err == f"headgate: its end ({end}) is dropped: at(...) has none\n"
    assert shop.scheduler.schedules[0].end is None


def test_run_submits_the_job_and_prints_its_id(shop: Shop) -> None:
    shop.create("nightly")
    ended = shop.run("run", "nightly")
    [message] = shop.sqs.messages("shop-test-jobs-normal")
    assert ended == Ended(0, f"{parse(message.body).id}\n", "")


def test_the_environment_may_name_the_app(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.create("nightly")
    monkeypatch.setenv("HEADGATE_APP", APP)
    assert shop.run("pause", "nightly", app=None).code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pause", "nope"], "no schedule 'nope'"),
        (["run", "nope"], "no schedule 'nope'"),
        (["list", "nope"], "no schedule 'nope'"),
        (["reset"], "Missing argument 'NAME'"),
        (["stop", "nightly"], "No such command 'stop'"),
        ([], "Usage: headgate schedules"),
    ],
)
def test_a_wrong_command_says_so_and_ends_with_2(shop: Shop, words: list[str], said: str) -> None:
    ended = shop.run(*words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_what_another_try_may_mend_ends_with_1(shop: Shop) -> None:
    shop.scheduler.error = ScheduleGroupMissing("shop-test")
    ended = shop.run("list")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("headgate: the schedule group 'shop-test' does not exist")
    assert ended.err.count("\n") == 1


# --- all of them, and to another region ----------------------------------------------------------


def test_all_are_paused_and_resumed_at_once(shop: Shop) -> None:
    shop.create("nightly")
    shop.create("often", Schedule.rate(timedelta(hours=1)))
    shop.run("pause", "often")
    paused = shop.run("pause", "--all")
    assert (paused.code, paused.out) == (0, "nightly is paused\n")
    resumed = shop.run("resume", "--all")
    assert resumed.out.splitlines() == ["nightly fires again", "often fires again"]


def test_one_that_is_refused_keeps_no_other_from_being_switched(shop: Shop) -> None:
    clock = VirtualClock(datetime.now(UTC))
    shop.scheduler = MemoryScheduler(clock)
    in_an_hour = clock.now() + timedelta(hours=1)
    shop.create("a-promo", Schedule.rate(timedelta(minutes=5), end=in_an_hour))
    shop.create("nightly")
    assert shop.run("pause", "--all").code == 0
    clock.advance(timedelta(hours=2))
    resumed = shop.run("resume", "--all")
    assert (resumed.code, resumed.out) == (1, "nightly fires again\n")
    assert resumed.err.startswith("headgate: a-promo is left as it was: rate(5 minutes) no longer")
    assert shop.run("resume", "a-promo").code == 2


def test_one_that_has_gone_meanwhile_is_no_failure(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a-once", "nightly"):
        shop.create(name)
    read = Schedules.list

    def removed_after(schedules: Schedules) -> Sequence[ScheduleInfo | UnreadableSchedule]:
        found = read(schedules)
        schedules.remove("a-once")
        return found

    monkeypatch.setattr(Schedules, "list", removed_after)
    assert shop.run("pause", "--all") == Ended(0, "a-once is gone\nnightly is paused\n", "")


@pytest.mark.parametrize("words", [(), ("nightly", "--all")], ids=["neither", "both"])
def test_either_one_schedule_is_named_or_all(shop: Shop, words: tuple[str, ...]) -> None:
    shop.create("nightly")
    ended = shop.run("pause", *words)
    assert ended.code == 2
    assert "name one schedule, or write --all" in ended.err


def test_one_that_cannot_be_read_may_still_fire_and_so_the_exit_code_is_1(shop: Shop) -> None:
    shop.create("nightly")
    shop.create("odd")
    odd = shop.scheduler.schedules[1]
    shop.scheduler.replace(replace(odd, input="{}"))
    ended = shop.run("pause", "--all")
    assert (ended.code, ended.out) == (1, "nightly is paused\n")
    assert "odd" in ended.err
    exported = shop.run("export", "schedules.jsonl")
    assert (exported.code, exported.out) == (1, "1 schedules are in schedules.jsonl\n")
    assert "dynamic.odd can't be read, and is left out" in exported.err


def test_an_exported_file_is_imported_and_what_it_does_not_have_is_removed(shop: Shop) -> None:
    shop.create("nightly")
    assert shop.run("export", "schedules.jsonl").code == 0
    shop.create("often", Schedule.rate(timedelta(hours=1)))
    imported = shop.run("import", "schedules.jsonl")
    assert imported.code == 0
    assert imported.out.splitlines() == [
        "0 created, 0 changed, 1 as they were",
        "often is not in the file, and stays: --prune",
    ]
    assert "often is removed" in shop.run("import", "schedules.jsonl", "--prune").out
    assert [each.name for each in shop.scheduler.schedules] == ["dynamic.nightly"]
