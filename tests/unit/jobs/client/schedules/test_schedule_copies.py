"""Schedules exported in one place and imported in another."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel

from headgate import App, Client, Schedule, ScheduleInfo, cron
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.records.audit.entry import AuditAction
from headgate.testing import Harness

HOURLY = Schedule.rate(timedelta(hours=1))
NIGHTLY = cron("0 2 * * ? *", timezone="Europe/Berlin")


class Sync(BaseModel):
    shop: str


def make_app(*, stage: str = "prod") -> App:
    app = App("shop", stage=stage)
    app.define("sync-shop", Sync)
    app.define("report", schedule=NIGHTLY)
    return app


class Places:
    """An app in two places, and the file between them."""

    def __init__(self, folder: Path) -> None:
        self.here, self.there = Harness(make_app()), Harness(make_app())
        self.file = folder / "schedules.jsonl"

    @property
    def sender(self) -> Client:
        return self.here.client

    @property
    def receiver(self) -> Client:
        return self.there.client

    def create(self, name: str, when: Schedule = HOURLY, shop: str = "one") -> None:
        job = self.here.app.find_type("sync-shop")
        self.sender.schedules.create(name, job, Sync(shop=shop), schedule=when)

    def names(self) -> list[str]:
        return [each.name for each in self.receiver.schedules.list()]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_a_schedule_made_at_run_time_fires_there_as_it_did_here(places: Places) -> None:
    places.create("hourly", shop="two")
    exported = places.sender.schedules.export(places.file)
    imported = places.receiver.schedules.import_(places.file)

    assert (exported.exported, exported.unreadable) == (2, ())
    assert imported.created == ("hourly",)
    there = places.receiver.schedules.get("hourly")
    assert there.when.expression == HOURLY.expression
    job = places.there.app.find_type("sync-shop")
    places.there.clock.advance(timedelta(hours=1))
    assert {each.payload.shop for each in places.there.submitted(job)} == {"two"}


def test_a_paused_one_stays_paused_and_a_declared_one_is_switched(places: Places) -> None:
    places.create("hourly")
    places.sender.schedules.pause("hourly")
    places.receiver.schedules.pause("report")  # as in a standby
    places.sender.schedules.export(places.file)
    imported = places.receiver.schedules.import_(places.file)
    assert imported.changed == ("report",)
    assert not places.receiver.schedules.get("hourly").enabled
    assert places.receiver.schedules.get("report").enabled


def test_a_declared_one_that_was_moved_is_moved_there_and_can_be_reset(places: Places) -> None:
    places.sender.schedules.reschedule("report", schedule=HOURLY)
    places.sender.schedules.export(places.file)
    places.receiver.schedules.import_(places.file)
    moved = places.receiver.schedules.get("report")
    assert (moved.when.expression, moved.moved) == (HOURLY.expression, True)
    places.receiver.schedules.reset("report")
    assert places.receiver.schedules.get("report").when.expression == NIGHTLY.expression


def test_a_declared_one_that_was_reset_there_is_reset_here_too(places: Places) -> None:
    places.receiver.schedules.reschedule("report", schedule=HOURLY)
    places.receiver.schedules.pause("report")
    places.sender.schedules.export(places.file)
    assert places.receiver.schedules.import_(places.file).changed == ("report",)
    here = places.receiver.schedules.get("report")
    assert (here.when.expression, here.moved, here.enabled) == (NIGHTLY.expression, False, True)
    assert places.receiver.schedules.import_(places.file).same == 1


def test_an_import_repeated_makes_nothing_twice(places: Places) -> None:
    places.create("nightly", NIGHTLY)
    places.sender.schedules.export(places.file)
    places.receiver.schedules.import_(places.file)
    again = places.receiver.schedules.import_(places.file)
    assert (again.created, again.changed, again.same) == ((), (), 2)
    assert places.names() == ["nightly", "report"]


def test_a_change_made_here_is_made_there(places: Places, tmp_path: Path) -> None:
    places.create("hourly")
    places.sender.schedules.export(places.file)
    places.receiver.schedules.import_(places.file)
    places.sender.schedules.reschedule("hourly", schedule=NIGHTLY)
    places.sender.schedules.export(later := tmp_path / "later.jsonl")
    assert places.receiver.schedules.import_(later).changed == ("hourly",)
    assert places.receiver.schedules.get("hourly").when.expression == NIGHTLY.expression


@pytest.mark.parametrize("prune", [False, True])
def test_what_the_file_does_not_have_is_named_and_removed_on_request(
    places: Places, prune: bool
) -> None:
    places.sender.schedules.export(places.file)
    job = places.there.app.find_type("sync-shop")
    places.receiver.schedules.create("extra", job, Sync(shop="x"), schedule=HOURLY)
    imported = places.receiver.schedules.import_(places.file, prune=prune)
    assert (imported.others, imported.removed) == (("extra",), prune)
    assert ("extra" in places.names()) is not prune


def test_one_without_a_time_left_is_named_and_not_made(places: Places) -> None:
    at = datetime(2026, 1, 1, 8, tzinfo=UTC)
    places.create("once", Schedule.at(at))
    places.sender.schedules.export(places.file)
    places.there.clock.advance(timedelta(days=1))
    imported = places.receiver.schedules.import_(places.file)
    assert (imported.over, imported.created) == (("once",), ())


def test_a_declared_one_that_is_not_deployed_there_is_named(places: Places) -> None:
    places.sender.schedules.export(places.file)
    places.there.scheduler.drop("shop-prod", "report")
    imported = places.receiver.schedules.import_(places.file)
    assert (imported.missing, imported.created) == (("report",), ())


def test_one_that_cannot_be_read_is_left_out_and_named(places: Places) -> None:
    places.create("hourly")
    [odd] = [each for each in places.here.scheduler.schedules if each.name == "dynamic.hourly"]
    places.here.scheduler.replace(replace(odd, input="{}"))
    exported = places.sender.schedules.export(places.file)
    assert (exported.exported, exported.unreadable) == (1, ("dynamic.hourly",))


def test_the_file_is_for_its_owner_alone_and_never_overwritten(places: Places) -> None:
    places.sender.schedules.export(places.file)
    assert stat.S_IMODE(places.file.stat().st_mode) == 0o600
    with pytest.raises(ConfigurationError, match=r"schedules\.jsonl can't be written"):
        places.sender.schedules.export(places.file)


def test_a_line_that_is_none_is_refused_before_anything_is_made(places: Places) -> None:
    places.create("hourly")
    places.sender.schedules.export(places.file)
    with places.file.open("a") as file:
        file.write('{"name": "dynamic.odd"}\n')
    with pytest.raises(ConfigurationError, match="line 3: this is not a schedule"):
        places.receiver.schedules.import_(places.file)
    assert places.names() == ["report"]


def test_another_stages_file_is_refused(places: Places) -> None:
    places.sender.schedules.export(places.file)
    other = Harness(make_app(stage="qa")).client
    with pytest.raises(ConfigurationError, match="line 1: 'shop-prod-jobs-normal' is not one"):
        other.schedules.import_(places.file)


def test_both_are_in_the_audit(places: Places) -> None:
    places.create("hourly")
    places.sender.schedules.export(places.file)
    places.receiver.schedules.import_(places.file)
    [exported] = places.sender.audit.list(action=AuditAction.EXPORT).entries
    [imported] = places.receiver.audit.list(action=AuditAction.IMPORT).entries
    assert (exported.target.kind, exported.count) == ("schedules", 2)
    assert (imported.target.kind, imported.count) == ("schedules", 1)


def test_a_line_has_nothing_that_belongs_to_a_region(places: Places) -> None:
    places.create("hourly")
    places.sender.schedules.export(places.file)
    for line in places.file.read_text().splitlines():
        assert "arn:" not in line
        assert json.loads(line)["v"] == 1


def test_every_kind_of_schedule_is_read_again(places: Places) -> None:
    end = datetime(2030, 1, 1, tzinfo=UTC)
    places.create("window", Schedule.rate(3600, flexible_window=600, end=end))
    places.create("zoned", NIGHTLY)
    places.create("once", Schedule.at(end))
    places.sender.schedules.export(places.file)
    places.receiver.schedules.import_(places.file)
    here = [each for each in places.sender.schedules.list() if isinstance(each, ScheduleInfo)]
    there = [each for each in places.receiver.schedules.list() if isinstance(each, ScheduleInfo)]
    assert [each.when for each in there] == [each.when for each in here]
