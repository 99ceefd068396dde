"""``client.schedules``: create, list, pause, change and remove."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, TypeAlias, cast

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict  # pydantic uses typing's only from Python 3.12 on

from headgate import App, AsyncJobHandle, JobContext, Priority, Tenant, Unique, cron
from headgate.jobs.client.schedules.async_schedules import AsyncSchedules
from headgate.jobs.client.schedules.schedules import Schedules
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.errors import (
    MessageUnreadable,
    OptionInvalid,
    PayloadInvalid,
    PayloadTooLarge,
    ScheduleDeclared,
    ScheduleExists,
    ScheduleMissing,
    SettingsInvalid,
    UnknownJobType,
)
from headgate.jobs.messages.envelope import Options
from headgate.jobs.records.state import JobState
from headgate.jobs.schedules.delayed_job import MAX_INPUT_BYTES
from headgate.jobs.schedules.firing import input_of, read_scheduled, schedule_input
from headgate.jobs.schedules.registry import ScheduleInfo, times_of
from headgate.jobs.testing import Harness, VirtualClock
from tests.support.bridge import DeployedBridge
from tests.support.clients import Kind, awaited, client_of

NIGHTLY = cron("0 2 * * ? *")

AnySchedules: TypeAlias = AsyncSchedules[AsyncJobHandle[Any]]


class Report(BaseModel):
    kind: str = "daily"


class Shipment(TypedDict):
    number: int


class Shop:
    """An app, its harness, a client's schedules, and the jobs that ran."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.app = App("shop", priorities="all", stage="test")
        self.ran: list[tuple[str, str, datetime]] = []

        @self.app.job("report", priority=Priority.LOW)
        def report(report: Report, ctx: JobContext) -> None:
            self.ran.append((report.kind, ctx.id, self.jobs.clock.now()))

        @self.app.job("weekly", schedule=cron("0 6 ? * MON *"))
        def weekly(report: Report) -> None: ...

        self.report: JobType[Report, None] = report
        self.weekly = weekly
        self.jobs = Harness(self.app)
        # As before a deployment: each test stores those that it is about.
        self.jobs.scheduler.drop(self.app.topology.schedule_group, "weekly")

    @property
    def schedules(self) -> AnySchedules:
        return self.schedules_of(self.jobs)

    def schedules_of(self, jobs: Harness) -> AnySchedules:
        if self.kind == "Client":
            return awaited(jobs.client).schedules
        return jobs.async_client.schedules

    def schedules_behind(self, clock: VirtualClock) -> AnySchedules:
        """Return the schedules of a client with a clock of its own."""
        jobs = self.jobs
        return client_of(
            self.kind, self.app, jobs.sqs, scheduler=jobs.scheduler, clock=clock
        ).schedules

    def deploy(self) -> None:
        """Deploy the type that declares a schedule, as `cdk deploy` does."""
        topology = self.app.topology
        self.jobs.scheduler.put(
            ScheduleSpec(
                group=topology.schedule_group,
                name="weekly",
                expression="cron(0 6 ? * MON *)",
                function=topology.bridge_name,
                role=topology.scheduler_role,
                input=json.dumps(schedule_input(self.app, self.weekly)),
            ),
            "deployed",
        )

    def kinds(self) -> list[str]:
        return [kind for kind, _, _ in self.ran]

    async def pass_days(self, days: float) -> None:
        self.jobs.clock.advance(timedelta(days=days))
        await self.jobs.adrain()


@pytest.fixture
def shop(kind: Kind) -> Shop:
    return Shop(kind)


async def test_a_schedule_made_at_run_time_submits_its_payload_at_its_times(shop: Shop) -> None:
    await shop.schedules.create("nightly", shop.report, Report(kind="full"), schedule=NIGHTLY)
    await shop.pass_days(1)
    await shop.pass_days(1)
    await shop.pass_days(1)
    assert shop.kinds() == ["full"] * 3
    assert len({job_id for _, job_id, _ in shop.ran}) == 3
    assert {at.hour for at in (at for _, at in shop.jobs.scheduler.fired)} == {2}


async def test_its_jobs_are_as_if_submitted_with_the_same_overrides(shop: Shop) -> None:
    await shop.schedules.create(
        "nightly",
        shop.report,
        Report(),
        schedule=NIGHTLY,
        priority=Priority.HIGH,
        max_attempts=7,
        timeout=timedelta(seconds=9),
        tenant="org-1",
    )
    shop.jobs.clock.advance(timedelta(days=1))
    [job] = shop.jobs.submitted(shop.report)
    assert (job.priority, job.source) == (Priority.HIGH, "schedule:nightly")
    assert job.tenant is not None
    assert job.tenant.org == "org-1"
    [stored] = shop.jobs.sqs.messages("shop-test-jobs-high")
    assert '"options":{"attempts":7,"timeout_s":9.0}' in stored.body


async def test_one_time_it_fires_once_and_is_gone(shop: Shop) -> None:
    due = shop.jobs.clock.now() + timedelta(days=40)
    await shop.schedules.create("inventory", shop.report, Report(), schedule=Schedule.at(due))
    await shop.pass_days(41)
    assert [when for _, when in shop.jobs.scheduler.fired] == [due]
    assert shop.kinds() == ["daily"]
    assert await shop.schedules.list() == []


@pytest.mark.parametrize(
    ("when", "days"),
    [(NIGHTLY, 10.0), (Schedule.rate(timedelta(hours=12)), 10.0), (cron("* * * * ? *"), 0.1)],
)
async def test_a_limit_ends_it_after_so_many_times(shop: Shop, when: Schedule, days: float) -> None:
    await shop.schedules.create("few", shop.report, Report(), schedule=when, limit=3)
    await shop.pass_days(days)
    await shop.pass_days(days)
    assert len(shop.ran) == 3
    assert shop.jobs.scheduler.schedules == []


async def test_a_limit_and_an_end_both_hold(shop: Shop) -> None:
    end = shop.jobs.clock.now() + timedelta(days=2)
    soon = cron("0 2 * * ? *", end=end)
    await shop.schedules.create("few", shop.report, Report(), schedule=soon, limit=9)
    await shop.pass_days(30)
    assert len(shop.ran) == 2


async def test_a_start_holds_it_back(shop: Shop) -> None:
    start = shop.jobs.clock.now() + timedelta(days=5)
    await shop.schedules.create(
        "later", shop.report, Report(), schedule=cron("0 2 * * ? *", start=start)
    )
    await shop.pass_days(5)
    assert shop.ran == []
    await shop.pass_days(1)
    assert len(shop.ran) == 1


async def test_a_resumed_schedule_does_not_catch_up_on_missed_times(
    shop: Shop,
) -> None:
    await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY)
    await shop.schedules.pause("nightly")
    assert not (await shop.schedules.get("nightly")).enabled
    await shop.pass_days(3)
    await shop.schedules.resume("nightly")
    assert (await shop.schedules.get("nightly")).enabled
    await shop.jobs.adrain()
    assert shop.ran == []
    await shop.pass_days(1)
    assert len(shop.ran) == 1


async def test_the_reason_of_a_pause_is_in_the_audit(shop: Shop) -> None:
    await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY)
    await shop.schedules.pause("nightly", reason="the source is down")
    [paused, _] = shop.jobs.client.audit.list().entries
    assert (paused.action, paused.reason) == ("pause-schedule", "the source is down")


async def test_too_long_a_reason_pauses_nothing(shop: Shop) -> None:
    await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY)
    with pytest.raises(SettingsInvalid, match="at most 300 characters, got 301"):
        await shop.schedules.pause("nightly", reason="x" * 301)
    assert (await shop.schedules.get("nightly")).enabled


async def test_pausing_and_resuming_changes_nothing_else(shop: Shop) -> None:
    when = cron("0 2 * * ? *", timezone="Asia/Tokyo", flexible_window=timedelta(minutes=10))
    await shop.schedules.create("nightly", shop.report, Report(kind="full"), schedule=when)
    [before] = shop.jobs.scheduler.schedules
    await shop.schedules.pause("nightly")
    await shop.schedules.resume("nightly")
    [after] = shop.jobs.scheduler.schedules
    assert after == before


LONG_AGO = timedelta(days=3, minutes=20)
"""An age that is no multiple of an hour: times counted from then have minutes of their own."""


def long_since(shop: Shop) -> tuple[Schedule, Schedule]:
    """Return a cron expression and a rate that began long ago."""
    start = shop.jobs.clock.now() - LONG_AGO
    return cron("0 2 * * ? *", start=start), Schedule.rate(timedelta(hours=1), start=start)


async def test_a_start_that_is_over_is_created_with_the_same_times_from_now_on(shop: Shop) -> None:
    daily, hourly = long_since(shop)
    promised = {
        "daily": list(islice(times_of(daily, shop.jobs.clock.now()), 2)),
        "hourly": list(islice(times_of(hourly, shop.jobs.clock.now()), 30)),
    }
    await shop.schedules.create("daily", shop.report, Report(), schedule=daily)
    await shop.schedules.create("hourly", shop.report, Report(), schedule=hourly)
    await shop.pass_days(2)
    for name, times in promised.items():
        fired = [when for of, when in shop.jobs.scheduler.fired if of == f"dynamic.{name}"]
        assert fired[: len(times)] == times


async def test_a_schedule_can_be_given_times_that_began_long_ago(shop: Shop) -> None:
    await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY)
    for when in long_since(shop):
        due = list(islice(times_of(when, shop.jobs.clock.now()), 3))
        await shop.schedules.reschedule("nightly", schedule=when)
        assert await shop.schedules.next_times("nightly", 3) == due


@pytest.mark.parametrize("minutes", [2, 6, 600])
async def test_a_rate_keeps_its_times_when_it_is_paused_and_resumed(
    shop: Shop, minutes: int
) -> None:
    created = shop.jobs.clock.now()
    await shop.schedules.create(
        "often", shop.report, Report(), schedule=Schedule.rate(timedelta(hours=7))
    )
    shop.jobs.clock.advance(timedelta(minutes=minutes))
    await shop.schedules.pause("often")
    shop.jobs.clock.advance(timedelta(minutes=minutes))
    await shop.schedules.resume("often")
    due = await shop.schedules.next_times("often", 3)
    shop.jobs.scheduler.fired.clear()
    await shop.pass_days(1)
    assert [when for _, when in shop.jobs.scheduler.fired][:3] == list(due)
    assert (due[0] - created) % timedelta(hours=7) == timedelta(0)


async def test_a_rate_that_is_paused_in_its_last_interval_still_fires_at_its_end(
    shop: Shop,
) -> None:
    end = shop.jobs.clock.now() + timedelta(hours=2)
    hourly = Schedule.rate(timedelta(hours=1), end=end)
    await shop.schedules.create("twice", shop.report, Report(), schedule=hourly)
    shop.jobs.clock.advance(timedelta(minutes=90))
    await shop.schedules.pause("twice")
    await shop.schedules.resume("twice")
    assert await shop.schedules.next_times("twice") == [end]
    shop.jobs.scheduler.fired.clear()
    await shop.pass_days(1)
    assert [when for _, when in shop.jobs.scheduler.fired] == [end]


async def test_a_rate_of_which_no_time_is_left_does_not_begin_anew(shop: Shop) -> None:
    created = shop.jobs.clock.now()
    rarely = Schedule.rate(timedelta(hours=6), end=created + timedelta(hours=11))
    await shop.schedules.create("twice", shop.report, Report(), schedule=rarely)
    shop.jobs.clock.advance(timedelta(hours=1))
    await shop.schedules.pause("twice")
    shop.jobs.clock.advance(timedelta(hours=6))
    with pytest.raises(SettingsInvalid, match="none of its times is left before its end"):
        await shop.schedules.resume("twice")
    shop.jobs.clock.advance(timedelta(days=1))
    assert [when for _, when in shop.jobs.scheduler.fired] == [created]
    await shop.schedules.reschedule("twice", schedule=NIGHTLY)
    await shop.schedules.resume("twice")
    assert len(await shop.schedules.next_times("twice")) == 5


async def test_a_client_whose_clock_is_behind_can_change_what_has_begun(shop: Shop) -> None:
    behind = VirtualClock(shop.jobs.clock.now() - timedelta(minutes=4))
    scheduler = shop.jobs.scheduler
    schedules = shop.schedules_behind(behind)
    hourly = Schedule.rate(timedelta(hours=1), start=behind.now() - timedelta(minutes=3))
    await schedules.create("often", shop.report, Report(), schedule=hourly)
    changes: list[Callable[[], Awaitable[None]]] = [
        lambda: schedules.pause("often"),
        lambda: schedules.resume("often"),
        lambda: schedules.reschedule("often", schedule=hourly),
    ]
    for change in changes:
        await change()
        [spec] = scheduler.schedules
        assert spec.start is not None
        assert spec.start >= shop.jobs.clock.now()
        assert (spec.start - behind.now()) % timedelta(hours=1) == timedelta(minutes=57)


async def test_a_rescheduled_schedule_fires_at_its_new_times_with_its_old_payload(
    shop: Shop,
) -> None:
    await shop.schedules.create("nightly", shop.report, Report(kind="full"), schedule=NIGHTLY)
    await shop.schedules.reschedule("nightly", schedule=cron("30 4 * * ? *"), limit=1)
    await shop.pass_days(5)
    [(_, fired_at)] = shop.jobs.scheduler.fired
    assert (fired_at.hour, fired_at.minute) == (4, 30)
    assert shop.kinds() == ["full"]


async def test_a_removed_schedule_fires_no_more(shop: Shop) -> None:
    await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY)
    assert await shop.schedules.remove("nightly")
    assert not await shop.schedules.remove("nightly")
    await shop.pass_days(3)
    assert shop.ran == []


async def test_a_removed_schedule_can_be_made_again(shop: Shop) -> None:
    for _ in range(2):
        await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY)
        await shop.schedules.remove("nightly")


async def test_run_now_submits_a_job_of_its_own_beside_the_times(shop: Shop) -> None:
    await shop.schedules.create("nightly", shop.report, Report(kind="full"), schedule=NIGHTLY)
    await shop.schedules.pause("nightly")
    first, second = [await shop.schedules.run_now("nightly") for _ in range(2)]
    await shop.jobs.adrain()
    assert [(kind, job_id) for kind, job_id, _ in shop.ran] == [
        ("full", first.id),
        ("full", second.id),
    ]


async def test_run_now_of_a_removed_type_is_refused_before_anything_is_sent(shop: Shop) -> None:
    await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY)
    without = App("shop", stage="test")
    without.define("other", Report)
    later = Harness(without)
    later.scheduler.put(shop.jobs.scheduler.schedules[0], "kept")
    refusal = "'nightly' submits jobs of the type 'report', which the app 'shop' no longer has"
    with pytest.raises(UnknownJobType, match=refusal):
        await shop.schedules_of(later).run_now("nightly")
    assert not any(later.sqs.messages(queue.name) for queue in later.app.topology.queues)


async def test_next_times_are_those_that_it_then_fires_at(shop: Shop) -> None:
    await shop.schedules.create(
        "often", shop.report, Report(), schedule=Schedule.rate(timedelta(hours=7))
    )
    await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY)
    promised = {name: await shop.schedules.next_times(name, 4) for name in ("often", "nightly")}
    await shop.pass_days(10)
    for name, times in promised.items():
        fired = [when for of, when in shop.jobs.scheduler.fired if of == f"dynamic.{name}"]
        assert fired[:4] == list(times)


async def test_the_last_runs_are_the_times_at_which_it_fired_with_their_jobs(shop: Shop) -> None:
    every = Schedule.rate(timedelta(hours=7))
    await shop.schedules.create("often", shop.report, Report(kind="often"), schedule=every)
    await shop.schedules.create("nightly", shop.report, Report(kind="night"), schedule=NIGHTLY)
    shop.deploy()
    await shop.pass_days(20)
    now = shop.jobs.clock.now()
    for name, kind in (("often", "often"), ("nightly", "night")):
        runs = (await shop.schedules.get(name)).last_runs(4, now)
        fired = [when for of, when in shop.jobs.scheduler.fired if of == f"dynamic.{name}"]
        assert [each.at for each in runs] == fired[:-5:-1]
        assert {each.job_id for each in runs} < {job for of, job, _ in shop.ran if of == kind}
    weekly = (await shop.schedules.get("weekly")).last_runs(10, now)
    ended = [shop.jobs.client.handle(each.job_id).history().state for each in weekly]
    assert set(ended) == {JobState.COMPLETED}
    assert len(ended) in (2, 3)


async def test_a_schedule_has_no_runs_before_its_creation(shop: Shop) -> None:
    made = await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY)
    assert made.last_runs(5, shop.jobs.clock.now() + timedelta(days=9)) == []
    found = await shop.schedules.get("nightly")
    assert found.last_runs(5, shop.jobs.clock.now()) == []
    assert len(found.last_runs(50, shop.jobs.clock.now() + timedelta(days=9))) == 9
    assert found.last_runs(0, shop.jobs.clock.now() + timedelta(days=9)) == []


# --- declared in the code ------------------------------------------------------------------------


async def test_a_list_has_declared_and_dynamic_schedules_but_no_delayed_jobs(
    shop: Shop,
) -> None:
    shop.deploy()
    await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY)
    shop.jobs.client.submit(shop.report, Report(), delay=timedelta(days=3))
    listed = {
        each.name: (each.job_type, each.declared)
        for each in await shop.schedules.list()
        if isinstance(each, ScheduleInfo)
    }
    assert listed == {"nightly": ("report", False), "weekly": ("weekly", True)}


async def test_a_declared_schedule_can_be_paused_and_run_but_not_removed(shop: Shop) -> None:
    shop.deploy()
    await shop.schedules.pause("weekly")
    assert not (await shop.schedules.get("weekly")).enabled
    assert (await shop.schedules.run_now("weekly")).type == "weekly"
    with pytest.raises(ScheduleDeclared, match="take it off the type"):
        await shop.schedules.remove("weekly")


async def test_a_moved_schedule_fires_at_its_new_times_and_says_that_it_was_moved(
    shop: Shop,
) -> None:
    shop.deploy()
    await shop.schedules.reschedule("weekly", schedule=NIGHTLY)
    moved = await shop.schedules.get("weekly")
    assert (moved.moved, moved.declared, moved.enabled) == (True, True, True)
    assert (moved.when, moved.in_code) == (NIGHTLY, cron("0 6 ? * MON *"))
    await shop.pass_days(2)
    assert len(shop.jobs.completed(shop.weekly)) == 2


async def test_a_moved_schedule_that_has_a_limit_stays_for_the_next_deployment(shop: Shop) -> None:
    shop.deploy()
    await shop.schedules.reschedule("weekly", schedule=NIGHTLY, limit=1)
    await shop.pass_days(3)
    assert len(shop.jobs.completed(shop.weekly)) == 1
    assert (await shop.schedules.get("weekly")).moved


async def test_a_reset_takes_a_schedule_back_to_what_the_code_declares(shop: Shop) -> None:
    shop.deploy()
    [before] = shop.jobs.scheduler.schedules
    await shop.schedules.reschedule("weekly", schedule=NIGHTLY)
    await shop.schedules.reschedule("weekly", schedule=Schedule.rate(timedelta(hours=1)))
    await shop.schedules.pause("weekly")
    assert (await shop.schedules.get("weekly")).moved
    await shop.schedules.reset("weekly")
    [after] = shop.jobs.scheduler.schedules
    assert replace(after, modified_at=before.modified_at) == before
    await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY)
    with pytest.raises(OptionInvalid, match="no job type of the app 'shop' declares a schedule"):
        await shop.schedules.reset("nightly")
    with pytest.raises(ScheduleMissing):
        await shop.schedules.reset("none")


async def test_a_moved_schedule_fires_before_the_start_that_the_code_declares(kind: Kind) -> None:
    shop = Shop(kind)
    start = shop.jobs.clock.now() + timedelta(days=365)

    @shop.app.job("yearly", schedule=Schedule.rate(timedelta(days=7), start=start))
    def yearly() -> None: ...

    jobs = Harness(shop.app)
    schedules = shop.schedules_of(jobs)
    assert not (await schedules.get("yearly")).moved
    await schedules.reschedule("yearly", schedule=NIGHTLY)
    jobs.clock.advance(timedelta(days=1))
    await jobs.adrain()
    assert len(jobs.completed(yearly)) == 1
    await schedules.reset("yearly")
    found = await schedules.get("yearly")
    assert (found.moved, found.when) == (False, yearly.schedule)


async def test_a_declared_schedule_that_was_not_deployed_is_missing_and_says_so(shop: Shop) -> None:
    assert await shop.schedules.list() == []
    with pytest.raises(ScheduleMissing, match="cdk deploy"):
        await shop.schedules.get("weekly")


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "fault"),
    [
        ({"name": ""}, OptionInvalid, "1 to 56 letters"),
        ({"name": "a" * 57}, OptionInvalid, "1 to 56 letters"),
        ({"name": "every night"}, OptionInvalid, "letters, digits"),
        ({"name": "weekly"}, ScheduleExists, "'weekly'"),
        ({"delay": timedelta(hours=1)}, OptionInvalid, "takes no delay"),
        ({"at": datetime(2027, 1, 1, tzinfo=UTC)}, OptionInvalid, "takes no at"),
        ({"unique": Unique(within=60)}, OptionInvalid, "takes no unique"),
        ({"payload": {"kind": 5}}, PayloadInvalid, "kind"),
        ({"payload": Report(kind="x" * MAX_INPUT_BYTES)}, PayloadTooLarge, "256 KiB"),
        ({"max_attempts": 0}, OptionInvalid, "attempts"),
        ({"job": "report"}, UnknownJobType, "is not a job type"),
        (
            {"schedule": Schedule.at(datetime(2025, 1, 1, tzinfo=UTC))},
            SettingsInvalid,
            "never fires",
        ),
        ({"schedule": cron("0 0 30 2 ? *")}, SettingsInvalid, "never fires"),
        ({"name": 5}, OptionInvalid, "name 5 must be"),
        ({"schedule": "cron(0 2 * * ? *)"}, SettingsInvalid, "schedule must be made by cron"),
        ({"schedule": None}, SettingsInvalid, "schedule must be made by cron"),
        ({"limit": 0}, SettingsInvalid, "limit must be a whole number of 1 to 100,000, got 0"),
        ({"limit": 2.5}, SettingsInvalid, r"limit must be a whole number .* got 2\.5"),
        ({"limit": "3"}, SettingsInvalid, "limit must be a whole number .* got '3'"),
        ({"limit": True}, SettingsInvalid, "limit must be a whole number .* got True"),
        ({"limit": 10**30}, SettingsInvalid, "limit must be a whole number"),
        (
            {"schedule": Schedule.at(datetime(2027, 1, 1, tzinfo=UTC)), "limit": 2},
            SettingsInvalid,
            "fires once",
        ),
        (
            {"schedule": cron("0 2 * * ? *", flexible_window=timedelta(minutes=5)), "limit": 2},
            SettingsInvalid,
            "exclude each other",
        ),
    ],
)
async def test_a_faulty_schedule_is_refused_before_anything_is_made(
    shop: Shop, changes: dict[str, Any], error: type[Exception], fault: str
) -> None:
    arguments: dict[str, Any] = {
        "name": "n",
        "job": shop.report,
        "payload": Report(),
        "schedule": NIGHTLY,
    } | changes
    with pytest.raises(error, match=fault):
        await shop.schedules.create(**arguments)
    assert shop.jobs.scheduler.schedules == []


async def test_an_option_of_none_is_as_if_left_out_of_a_schedule(shop: Shop) -> None:
    options: Any = dict.fromkeys(SubmitOptions.__annotations__)
    await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY, **options)
    assert len(shop.jobs.scheduler.schedules) == 1


async def test_a_schedule_submits_jobs_whose_payload_is_a_typed_dict(shop: Shop) -> None:
    ran: list[Shipment] = []

    @shop.app.job("ship")
    def ship(shipment: Shipment) -> None:
        ran.append(shipment)

    await shop.schedules.create("shipping", ship, {"number": 7}, schedule=NIGHTLY)
    await shop.schedules.run_now("shipping")
    await shop.jobs.adrain()
    assert ran == [{"number": 7}]


async def test_a_schedule_takes_a_job_as_a_value_with_its_options(shop: Shop) -> None:
    full = shop.report.new(Report(kind="full"), tenant="org-1", max_attempts=7)
    await shop.schedules.create("nightly", full, schedule=NIGHTLY)
    await shop.schedules.run_now("nightly")
    [sent] = shop.jobs.submitted(shop.report)
    assert (sent.payload, sent.tenant) == (Report(kind="full"), Tenant(org="org-1"))
    [spec] = shop.jobs.scheduler.schedules
    assert read_scheduled(spec.input).options == Options(attempts=7)


@pytest.mark.parametrize("option", [{"delay": timedelta(hours=1)}, {"unique": Unique(within=60)}])
async def test_a_schedule_refuses_options_of_job_values_that_it_does_not_take(
    shop: Shop, option: dict[str, Any]
) -> None:
    [name] = option
    with pytest.raises(OptionInvalid, match=f"takes no {name}"):
        await shop.schedules.create("n", shop.report.new(Report(), **option), schedule=NIGHTLY)
    with pytest.raises(OptionInvalid, match=r"give them to \.new"):
        await shop.schedules.create(
            "n", cast("Any", shop.report.new(Report())), schedule=NIGHTLY, tenant="org-1"
        )
    assert shop.jobs.scheduler.schedules == []


async def test_a_schedule_submits_jobs_without_a_payload(shop: Shop) -> None:
    ran: list[str] = []

    @shop.app.job("tick", schedule=Schedule.rate(timedelta(hours=1)))
    def tick(ctx: JobContext) -> None:
        ran.append(ctx.type)

    await shop.schedules.create("made", tick, schedule=NIGHTLY)
    await shop.schedules.run_now("made")
    await shop.jobs.adrain()
    firing = schedule_input(shop.app, tick) | {
        "schedule_arn": "arn:aws:scheduler:eu-central-1:1:schedule/shop/tick",
        "scheduled_time": "2026-01-01T00:00:00Z",
        "execution_id": "d32c5kddcf5bb8c3",
        "attempt_number": "1",
    }
    assert firing["payload"] == {}
    bridge = DeployedBridge(shop.app, shop.jobs.sqs, shop.jobs.table, shop.jobs.clock)
    bridge(json.dumps(firing))
    await shop.jobs.adrain()
    assert ran == ["tick", "tick"]


async def test_a_name_that_is_taken_is_refused(shop: Shop) -> None:
    await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY)
    with pytest.raises(ScheduleExists, match="'nightly'"):
        await shop.schedules.create("nightly", shop.report, Report(kind="other"), schedule=NIGHTLY)
    await shop.schedules.run_now("nightly")
    await shop.jobs.adrain()
    assert shop.kinds() == ["daily"]


@pytest.mark.parametrize(
    "call",
    [
        lambda schedules, name: schedules.get(name),
        lambda schedules, name: schedules.pause(name),
        lambda schedules, name: schedules.reschedule(name, schedule=NIGHTLY),
        lambda schedules, name: schedules.remove(name),
        lambda schedules, name: schedules.run_now(name),
        lambda schedules, name: schedules.next_times(name),
    ],
)
@pytest.mark.parametrize("name", [5, None, ["nightly"], b"nightly"])
async def test_a_schedule_s_name_that_is_no_text_is_refused(
    shop: Shop, call: Callable[[Any, Any], Any], name: object
) -> None:
    with pytest.raises(OptionInvalid, match="a schedule's name must be a string, got"):
        await call(shop.schedules, name)


@pytest.mark.parametrize("count", [-1, 2.5, "3", None])
async def test_a_number_of_next_times_that_is_none_is_refused(shop: Shop, count: Any) -> None:
    await shop.schedules.create("nightly", shop.report, Report(), schedule=NIGHTLY)
    with pytest.raises(SettingsInvalid, match="count must be a whole number, 0 or more, got"):
        await shop.schedules.next_times("nightly", count)


@pytest.mark.parametrize(
    "call",
    [
        lambda schedules: schedules.get("nope"),
        lambda schedules: schedules.pause("nope"),
        lambda schedules: schedules.resume("nope"),
        lambda schedules: schedules.reschedule("nope", schedule=NIGHTLY),
        lambda schedules: schedules.run_now("nope"),
        lambda schedules: schedules.next_times("nope"),
    ],
)
async def test_a_schedule_that_there_is_not_is_missing(
    shop: Shop, call: Callable[[Any], Any]
) -> None:
    with pytest.raises(ScheduleMissing, match="'nope'"):
        await call(shop.schedules)


def test_a_foreign_schedule_under_our_prefix_is_reported_without_its_input() -> None:
    with pytest.raises(MessageUnreadable) as refused:
        read_scheduled('{"secret": "hunter2"}')
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None


# --- both ----------------------------------------------------------------------------------------


def test_the_async_one_has_the_same_methods_with_the_same_arguments() -> None:
    def public(cls: type) -> dict[str, Any]:
        return {
            name: inspect.signature(method).parameters
            for name, method in inspect.getmembers(cls, inspect.isfunction)
            if not name.startswith("_")
        }

    assert public(Schedules) == public(AsyncSchedules)


async def test_an_input_of_our_own_has_the_context_attributes_and_no_others(shop: Shop) -> None:
    await shop.schedules.create(
        "odd", shop.report, Report(kind="<aws.scheduler.scheduled-time>"), schedule=NIGHTLY
    )
    [spec] = shop.jobs.scheduler.schedules
    assert spec.input.count("<aws.scheduler.") == 4
    assert input_of(read_scheduled(spec.input)) == spec.input
    await shop.pass_days(1)
    assert shop.kinds() == ["<aws.scheduler.scheduled-time>"]
