"""Schedules under `headgate dev`: what is stored, and when it fires through the bridge."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Client, Encryption, Schedule, Signing, cron
from headgate.errors import MessageUnreadable, TransportError
from headgate.jobs.core.concurrency import Threads
from headgate.jobs.core.events import Events
from headgate.jobs.core.immediate import ImmediateSecretStore
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.definitions.policies import keyring_of
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.messages.signatures import Destination
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.routes import Routes
from headgate.jobs.testing import MemoryBackend, VirtualClock
from headgate.ops.dev import notes
from headgate.ops.dev.schedules import LOOK_BACK, LocalScheduler, LocalSchedules

MINUTE = timedelta(minutes=1)


class Report(BaseModel):
    kind: str = "daily"


def an_app() -> App:
    app = App("shop")
    app.define("report", Report, schedule=cron("0 8 * * ? *", timezone="Europe/Berlin"))
    app.define("sync", None, schedule=Schedule.rate(timedelta(minutes=15)))
    app.define("once", None)
    return app


class Stored:
    """A scheduler that only stores, over that of a `MemoryBackend`, with its own clock standing."""

    def __init__(self, backend: MemoryBackend, clock: VirtualClock) -> None:
        self._scheduler = backend.scheduler.sync
        self._clock = clock
        self.reads = 0
        self.changes: list[str] = []
        self.modified: dict[str, datetime] = {}

    def create(self, schedule: ScheduleSpec, *, token: str) -> bool:
        self.changes.append(f"create {schedule.name}")
        self.modified[schedule.name] = self._clock.now()
        return self._scheduler.create(schedule, token=token)

    def get(self, group: str, name: str) -> ScheduleSpec | None:
        self.reads += 1
        found = self._scheduler.get(group, name)
        if found is None:
            return None
        at = self.modified.setdefault(name, self._clock.now())
        return replace(found, modified_at=at, beyond={"Arn": f"arn:aws:scheduler:::{name}"})

    def names(self, group: str, *, prefix: str) -> list[str]:
        return self._scheduler.names(group, prefix=prefix)

    def update(self, schedule: ScheduleSpec) -> bool:
        self.changes.append(f"update {schedule.name}")
        self.modified[schedule.name] = self._clock.now()
        return self._scheduler.update(schedule)

    def delete(self, group: str, name: str) -> bool:
        self.changes.append(f"delete {name}")
        return self._scheduler.delete(group, name)


class World:
    """An app, its stored schedules, and the process that fires them."""

    def __init__(self, app: App | None = None) -> None:
        self.app = app or an_app()
        self.clock = VirtualClock()
        self.backend = MemoryBackend(self.app)  # whose own clock stands, so that it fires nothing
        self.stored = Stored(self.backend, self.clock)
        LocalSchedules(self.app, self.stored).store()
        self.scheduler = self.begun()

    def begun(self) -> LocalScheduler:
        bridge = Bridge(
            self.backend.sqs.sync,
            self.backend.table.sync,
            self.clock.now,
            routes=Routes.of(self.app),
            keyring=self.keyring(),
        )
        group = self.app.topology.schedule_group
        return LocalScheduler(group, self.stored, bridge, self.clock.now)

    def keyring(self) -> Keyring | None:
        """Return the keys of a process of the app, as it reads them itself."""
        secrets = ImmediateSecretStore(self.backend.secrets.sync)
        return keyring_of(self.app, secrets, Threads(), self.clock, Events())

    def look(self, after: timedelta = timedelta(0)) -> bool:
        """Let time pass; then read and fire, as the process does twice a second."""
        self.clock.advance(after)
        self.scheduler.read()
        return self.scheduler.fire_due()

    def sent(self) -> list[str]:
        """Return the types of the jobs in the queues."""
        return [
            json.loads(message.body)["type"]
            for spec in self.app.topology.queues
            for message in self.backend.sqs.messages(spec.name)
        ]


def test_declared_schedules_are_stored_once_and_left_alone_afterwards() -> None:
    world = World()
    LocalSchedules(world.app, world.stored).store()
    assert world.stored.changes == ["create report", "create sync"]


def test_a_changed_schedule_is_updated_and_a_paused_one_stays_paused() -> None:
    world = World()
    with Client(world.app, backend=world.backend) as client:
        client.schedules.pause("sync")
    edited = App("shop")
    edited.define("sync", None, schedule=Schedule.rate(timedelta(minutes=5)))
    LocalSchedules(edited, world.stored).store()
    assert world.stored.changes[-2:] == ["update sync", "delete report"]
    found = world.stored.get(edited.topology.schedule_group, "sync")
    assert found is not None
    assert (found.expression, found.enabled) == ("rate(5 minutes)", False)


def test_a_moved_schedule_keeps_its_times_until_its_declaration_changes() -> None:
    world = World()
    with Client(world.app, backend=world.backend) as client:
        client.schedules.reschedule("report", schedule=cron("0 9 * * ? *"))
        LocalSchedules(world.app, world.stored).store()
        kept = client.schedules.get("report")
    assert (kept.moved, kept.when) == (True, cron("0 9 * * ? *"))
    edited = App("shop")
    edited.define("report", Report, schedule=cron("0 10 * * ? *"))
    LocalSchedules(edited, world.stored).store()
    with Client(edited, backend=world.backend) as client:
        changed = client.schedules.get("report")
    assert (changed.moved, changed.when) == (False, cron("0 10 * * ? *"))


def test_schedules_made_at_run_time_outlast_an_edit() -> None:
    world = World()
    with Client(world.app, backend=world.backend) as client:
        client.schedules.create("mine", world.app.types["once"], schedule=cron("0 9 * * ? *"))
    LocalSchedules(world.app, world.stored).store()
    assert not [change for change in world.stored.changes if change.startswith("delete")]


def test_a_schedule_made_at_run_time_is_told_of_by_the_name_it_was_given(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    with Client(world.app, backend=world.backend) as client:
        client.schedules.create("mine", world.app.types["once"], schedule=cron("0 1 * * ? *"))
    with caplog.at_level(logging.INFO, logger=notes.LOGGER):
        world.look(timedelta(hours=1))
    assert "the schedule mine fired" in caplog.messages


def test_the_next_times_follow_firings_and_pauses_and_what_was_made_at_run_time() -> None:
    world = World()  # at midnight in UTC
    midnight = world.clock.now()
    with Client(world.app, backend=world.backend) as client:
        client.schedules.create("mine", world.app.types["once"], schedule=cron("0 9 * * ? *"))
        client.submit(world.app.types["once"], delay=timedelta(hours=2))  # no schedule of a type
    world.look()
    quarter = timedelta(minutes=15)
    assert world.scheduler.next_times() == {
        "report": midnight + timedelta(hours=7),
        "sync": midnight + quarter,
        "once": midnight + timedelta(hours=9),
    }
    assert world.look(quarter)
    assert world.scheduler.next_times()["sync"] == midnight + 2 * quarter
    with Client(world.app, backend=world.backend) as client:
        client.schedules.pause("sync")
    assert not world.look()
    assert world.scheduler.next_times().keys() == {"report", "once"}


def test_a_cron_schedule_fires_in_its_time_zone_and_only_once() -> None:
    world = World()  # midnight in UTC, in winter: Berlin is one hour ahead
    world.stored.delete(world.app.topology.schedule_group, "sync")
    world.look(timedelta(hours=7) - timedelta(seconds=1))
    assert world.sent() == []
    world.look(timedelta(seconds=1))
    world.look(MINUTE)
    assert world.sent() == ["report"]


def test_what_an_emulator_takes_for_done_and_deletes_when_it_is_due_still_fires_once() -> None:
    world = World()
    group, at = world.app.topology.schedule_group, world.clock.now() + timedelta(hours=1)
    with Client(world.app, backend=world.backend) as client:
        client.schedules.create("mine", world.app.types["once"], schedule=Schedule.at(at))
    world.look()
    [name] = [each for each in world.stored.names(group, prefix="") if each.endswith("mine")]
    world.stored.delete(group, name)
    world.look(timedelta(hours=1))
    world.look(MINUTE)
    assert world.sent().count("once") == 1


def test_what_is_deleted_before_it_is_due_does_not_fire() -> None:
    world = World()
    at = world.clock.now() + timedelta(hours=1)
    with Client(world.app, backend=world.backend) as client:
        client.schedules.create("mine", world.app.types["once"], schedule=Schedule.at(at))
        world.look()
        assert client.schedules.remove("mine")
    world.look(timedelta(minutes=59))
    world.look(MINUTE)
    assert "once" not in world.sent()


def test_a_rate_counts_from_its_creation() -> None:
    world = World()
    world.look()
    for _ in range(4):
        world.look(timedelta(minutes=5))
    assert world.sent() == ["sync", "sync"]  # at once, and after a quarter of an hour


def test_a_rate_made_at_run_time_counts_from_then_although_it_is_stored_a_little_later() -> None:
    world = World()
    world.stored.delete(world.app.topology.schedule_group, "sync")
    with Client(world.app, backend=world.backend) as client:
        client.schedules.create("mine", world.app.types["once"], schedule=Schedule.rate(MINUTE))
    world.look(timedelta(seconds=2))
    world.look(timedelta(seconds=2))
    assert world.sent() == ["once"]
    world.look(MINUTE)
    assert world.sent() == ["once", "once"]


def test_a_machine_that_slept_fires_once_for_all_that_it_missed() -> None:
    world = World()
    world.look()
    world.look(timedelta(hours=6))
    assert world.sent() == ["sync", "sync"]


def test_a_firing_that_came_due_while_an_edit_was_loaded_is_made_up_for_once() -> None:
    world = World()
    world.look()
    world.clock.advance(timedelta(minutes=15))
    for _ in range(2):  # the second process finds it fired already
        world.scheduler = world.begun()
        world.look(timedelta(seconds=20))
    assert world.sent() == ["sync", "sync"]


def test_a_firing_missed_long_before_the_start_is_not_made_up_for() -> None:
    world = World()
    world.look()
    world.clock.advance(timedelta(minutes=15) + LOOK_BACK + timedelta(seconds=1))
    world.scheduler = world.begun()
    world.look()
    assert world.sent() == ["sync"]


def test_a_long_delay_is_sent_when_due_and_its_schedule_deleted() -> None:
    world = World()
    group = world.app.topology.schedule_group
    for name in ("report", "sync"):
        world.stored.delete(group, name)
    with Client(world.app, backend=world.backend) as client:
        client.submit(world.app.types["once"], delay=timedelta(hours=1))
    world.look(timedelta(minutes=30))
    assert world.sent() == []
    world.look(timedelta(minutes=30))
    assert world.sent() == ["once"]
    assert world.stored.names(group, prefix="") == []


def test_a_firing_that_aws_does_not_take_is_tried_again() -> None:
    world = World()
    world.look()
    world.clock.advance(timedelta(minutes=15))
    world.backend.sqs.faults.raise_on("send", TransportError("SQS is away"))
    world.look()
    assert world.sent() == ["sync"]
    world.backend.sqs.faults.clear()
    world.look()
    assert world.sent() == ["sync", "sync"]


def test_a_firing_that_can_not_become_a_job_is_told_and_not_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.look()
    group = world.app.topology.schedule_group
    found = world.stored.get(group, "sync")
    assert found is not None
    world.stored.update(replace(found, input="{}"))
    with caplog.at_level(logging.ERROR):
        world.look(timedelta(minutes=15))
        world.look()
    [record] = caplog.records
    assert "the schedule sync fired, and submitted no job" in record.message


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"expression": "cron(0 8 * * *)"}, "has 5 fields"),
        ({"timezone": "Mars/Base"}, "Mars/Base"),
        ({"input": "hello"}, "submitted no job"),
        ({}, "invokes a queue"),
    ],
)
def test_a_schedule_made_by_hand_that_can_not_be_read_stops_no_other(
    changed: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    group = world.app.topology.schedule_group
    sync = world.stored.get(group, "sync")
    assert sync is not None
    world.stored.create(replace(sync, name="by-hand", **changed), token=world.app.name)
    get = world.stored.get

    def refusing(group: str, name: str) -> ScheduleSpec | None:
        if name == "by-hand" and not changed:
            raise MessageUnreadable("the schedule 'by-hand' invokes a queue")
        return get(group, name)

    world.stored.get = refusing  # type: ignore[method-assign]  # as what AWS has of it can't be read

    world.look()
    world.look(timedelta(minutes=15))

    assert set(world.sent()) == {"sync"}
    assert world.scheduler.next_times().keys() == {"report", "sync"}
    [told] = {record.message for record in caplog.records if "by-hand" in record.message}
    assert said in told


def test_what_fires_is_signed_and_a_delayed_job_stays_sealed() -> None:
    app = App("shop", signing=Signing(), encryption=Encryption())
    app.define("sync", None, schedule=Schedule.rate(timedelta(hours=1)))
    delayed = app.define("delayed", Report)
    world = World(app)
    with Client(app, backend=world.backend) as client:
        client.submit(delayed, Report(kind="canary-7f3a"), delay=timedelta(hours=1))
    world.look(timedelta(hours=1))
    assert sorted(world.sent()) == ["delayed", "sync"]
    keyring = world.keyring()
    assert keyring is not None
    for spec in app.topology.queues:
        for message in world.backend.sqs.messages(spec.name):
            asyncio.run(keyring.verify(message.body, Destination(queue=spec.name)))
            assert "canary-7f3a" not in message.body
