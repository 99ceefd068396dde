"""``client.schedules.list()``: many schedules, odd ones, and throttling."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, Schedule, cron
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import (
    AccessDenied,
    OptionInvalid,
    ScheduleDeclared,
    Throttled,
    TransportError,
)
from headgate.jobs.schedules.reading import AT_ONCE
from headgate.jobs.schedules.registry import ScheduleInfo, UnreadableSchedule
from headgate.jobs.testing import MemoryScheduler, MemorySqs, VirtualClock
from tests.support.clients import Kind, client_of

NIGHTLY = cron("0 2 * * ? *")


class Report(BaseModel):
    kind: str = "daily"


class Watched(MemoryScheduler):
    """A scheduler with scripted answers, which counts its calls and their concurrency."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.refusals: dict[str, list[TransportError]] = {}
        """The errors that the next look-ups of each schedule raise."""
        self.listing: list[TransportError] = []
        """The errors that the next listings raise."""
        self.asked: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.meeting: threading.Barrier | None = None
        """The barrier at which that many threads wait for each other before they look."""

    async def get(self, group: str, name: str) -> ScheduleSpec | None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await super().get(group, name)
        finally:
            self.at_once -= 1

    def find(self, group: str, name: str) -> ScheduleSpec | None:
        self.asked[name] += 1
        if self.meeting is not None:
            self.meeting.wait(timeout=30)
        if refusals := self.refusals.get(name):
            raise refusals.pop(0)
        return super().find(group, name)

    def names_in(self, group: str, prefix: str) -> list[str]:
        if self.listing:
            raise self.listing.pop(0)
        return super().names_in(group, prefix)


class Shop:
    """An app, and a client of a kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.clock = VirtualClock()
        self.scheduler = Watched(self.clock)
        self.paused_s: list[float] = []
        self.app, self.report = self.declared()
        self.client = self.client_of(self.app)

    def declared(self, **options: Any) -> tuple[App, JobType[Report, None]]:
        app = App("shop", stage="test")
        app.define("nightly", Report, **options)
        report: JobType[Report, None] = app.define("report", Report)
        return app, report

    def client_of(self, app: App) -> AsyncClient:
        return client_of(
            self.kind,
            app,
            MemorySqs(self.clock),
            scheduler=self.scheduler,
            clock=self.clock,
            sleep=self.paused_s.append,
        )

    async def create(self, *names: str) -> None:
        for name in names:
            await self.client.schedules.create(name, self.report, Report(), schedule=NIGHTLY)

    def spoil(self, name: str, **changes: Any) -> None:
        """Change what is stored, as another program might."""
        [spec] = [each for each in self.scheduler.schedules if each.name == f"dynamic.{name}"]
        assert self.scheduler.replace(replace(spec, **changes))

    async def listed(self) -> Sequence[ScheduleInfo | UnreadableSchedule]:
        return await self.client.schedules.list()


@pytest.fixture
def shop(kind: Kind) -> Shop:
    return Shop(kind)


async def test_what_cannot_be_read_is_listed_with_its_reason_among_the_others(shop: Shop) -> None:
    await shop.create("a", "foreign", "odd", "z")
    shop.spoil("foreign", input='{"secret": "hunter2"}')
    shop.spoil("odd", timezone="Mars/Olympus")
    listed = await shop.listed()
    assert [each.name for each in listed] == ["a", "foreign", "odd", "z"]
    a, foreign, odd, z = listed
    assert isinstance(a, ScheduleInfo)
    assert isinstance(z, ScheduleInfo)
    assert isinstance(foreign, UnreadableSchedule)
    assert isinstance(odd, UnreadableSchedule)
    assert "is not that of a Headgate schedule" in foreign.reason
    assert "hunter2" not in str(foreign)
    assert "Mars/Olympus" in odd.reason


async def test_many_schedules_are_read_together_within_a_bound() -> None:
    shop = Shop("AsyncClient")
    names = [f"n{number:03}" for number in range(5 * AT_ONCE)]
    await shop.create(*names)
    assert [each.name for each in await shop.listed()] == names
    assert shop.scheduler.most_at_once == AT_ONCE


async def test_threads_read_many_schedules_together_too() -> None:
    shop = Shop("Client")
    names = [f"n{number:03}" for number in range(2 * AT_ONCE)]
    await shop.create(*names)
    shop.scheduler.meeting = threading.Barrier(AT_ONCE)  # sequential calls would wait forever
    assert [each.name for each in await shop.listed()] == names


async def test_a_throttled_answer_is_asked_for_again_after_a_pause(shop: Shop) -> None:
    await shop.create("a", "b", "c")
    shop.scheduler.refusals = {"dynamic.b": [Throttled("slower")] * 6}
    shop.scheduler.refusals["dynamic.c"] = [Throttled("slower")]
    shop.scheduler.listing = [Throttled("slower")]
    listed = await shop.listed()
    assert [(each.name, type(each)) for each in listed][::2] == [
        ("a", ScheduleInfo),
        ("c", ScheduleInfo),
    ]
    assert shop.scheduler.asked["dynamic.a"] == 1
    assert len(shop.paused_s) == 1 + 5  # for the listing, and before each further look-up of b
    assert isinstance(listed[1], UnreadableSchedule)
    assert listed[1].reason == "slower"


async def test_where_nothing_can_be_read_for_throttling_the_list_says_so(shop: Shop) -> None:
    await shop.create("a", "b")
    shop.scheduler.refusals = {
        name: [Throttled("slower") for _ in range(99)] for name in ("dynamic.a", "dynamic.b")
    }
    with pytest.raises(Throttled):
        await shop.listed()


async def test_a_refusal_that_would_meet_all_ends_the_list_at_once(shop: Shop) -> None:
    names = [f"n{number:03}" for number in range(10 * AT_ONCE)]
    await shop.create(*names)
    shop.scheduler.refusals = {f"dynamic.{name}": [AccessDenied("no")] for name in names}
    with pytest.raises(AccessDenied):
        await shop.listed()
    for _ in range(5):
        await asyncio.sleep(0)
    assert shop.scheduler.asked.total() < len(names)
    assert shop.paused_s == []


async def test_a_schedule_that_a_type_declares_later_hides_none_of_its_name(shop: Shop) -> None:
    await shop.create("nightly")
    app, _ = shop.declared(schedule=Schedule.rate(timedelta(hours=1)))
    later = shop.client_of(app).schedules
    [made] = await later.list()
    assert (made.name, made.declared) == ("dynamic.nightly", False)

    deployed = replace(shop.scheduler.schedules[0], name="nightly", expression="rate(1 hour)")
    shop.scheduler.put(deployed, "deployed")
    assert {each.name: each.declared for each in await later.list()} == {
        "dynamic.nightly": False,
        "nightly": True,
    }
    assert (await later.get("nightly")).when == Schedule.rate(timedelta(hours=1))
    assert (await later.get("dynamic.nightly")).when == NIGHTLY
    with pytest.raises(ScheduleDeclared, match=r"One made at run time goes by 'dynamic\.nightly'"):
        await later.remove("nightly")
    await later.pause("dynamic.nightly")
    assert [each.enabled for each in shop.scheduler.schedules] == [False, True]
    await later.reschedule("dynamic.nightly", schedule=cron("0 3 * * ? *"))
    assert await later.remove("dynamic.nightly")
    assert [each.name for each in shop.scheduler.schedules] == ["nightly"]


async def test_no_schedule_is_made_under_a_name_that_stands_for_another(shop: Shop) -> None:
    with pytest.raises(OptionInvalid, match=r"begins with 'dynamic\.'"):
        await shop.create("dynamic.nightly")
    [name] = [each.name for each in await shop.listed()] or ["none"]
    assert name == "none"
