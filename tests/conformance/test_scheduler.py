"""The guarantees of every `AsyncScheduler`, whichever service is behind it.

Firing is not tested here: moto never fires, and MiniStack goes by the wall clock.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.errors import ScheduleGroupMissing, TransportError
from tests.conformance.schedulers import SchedulerFeature, SchedulerUnderTest
from tests.conformance.servers import needs

YEAR_2100 = datetime(2100, 1, 1, tzinfo=UTC)  # nothing fires while a test runs


def one_time(on: SchedulerUnderTest, name: str = "delay.1", **changes: Any) -> ScheduleSpec:
    bare = ScheduleSpec(
        group=on.group,
        name=name,
        expression="at(2100-01-01T00:00:00)",
        function="shop-bridge",
        role="shop-scheduler",
        input='{"a": 1}',
    )
    return replace(bare, **changes)


def recurring(on: SchedulerUnderTest, **changes: Any) -> ScheduleSpec:
    """Return a schedule with a value in every field."""
    values: dict[str, Any] = {
        "name": "dynamic.nightly",
        "expression": "cron(0 8 * * ? *)",
        "timezone": "Europe/Berlin",
        "start": YEAR_2100,
        "end": YEAR_2100 + timedelta(days=30),
        "flexible_minutes": 15,
        "enabled": False,
        "delete_when_done": True,
        "dead_letters": "shop-schedules-dlq",
        "description": "every night",
    }
    return one_time(on, **(values | changes))


async def create(on: SchedulerUnderTest, *schedules: ScheduleSpec) -> None:
    for schedule in schedules:
        assert await on.scheduler.create(schedule, token=schedule.name.replace(".", "-"))


async def found(on: SchedulerUnderTest, name: str) -> ScheduleSpec:
    """Return a stored schedule, without the times that the service adds."""
    schedule = await on.scheduler.get(on.group, name)
    assert schedule is not None
    return replace(schedule, created_at=None, modified_at=None)


@pytest.mark.parametrize("make", [one_time, recurring])
async def test_a_schedule_comes_back_as_it_was_created(on: SchedulerUnderTest, make: Any) -> None:
    schedule = make(on)
    await create(on, schedule)
    assert await found(on, schedule.name) == schedule


async def test_the_service_says_when_a_schedule_was_created(on: SchedulerUnderTest) -> None:
    before = datetime.now(UTC) - timedelta(minutes=1)
    await create(on, one_time(on))
    schedule = await on.scheduler.get(on.group, "delay.1")
    assert schedule is not None
    assert schedule.created_at is not None
    assert before < schedule.created_at < datetime.now(UTC) + timedelta(minutes=1)


async def test_a_taken_name_is_not_created_again_and_stays_as_it_is(
    on: SchedulerUnderTest,
) -> None:
    await create(on, one_time(on))
    assert not await on.scheduler.create(one_time(on, input="{}"), token="other")  # noqa: S106 - a request's name
    assert (await found(on, "delay.1")).input == '{"a": 1}'


@needs(SchedulerFeature.TOKENS)
async def test_a_creation_repeated_with_its_token_succeeds_again(
    on: SchedulerUnderTest,
) -> None:
    await create(on, one_time(on))
    await create(on, one_time(on))


@needs(SchedulerFeature.GROUP_MISSING_AT_CREATION)
async def test_nothing_is_created_in_a_group_that_does_not_exist(on: SchedulerUnderTest) -> None:
    with pytest.raises(ScheduleGroupMissing, match="'nowhere'"):
        await on.scheduler.create(one_time(on, group="nowhere"), token="any")  # noqa: S106 - a request's name


@needs(SchedulerFeature.GROUP_MISSING_AT_LISTING)
async def test_a_group_that_does_not_exist_is_not_listed(on: SchedulerUnderTest) -> None:
    with pytest.raises(ScheduleGroupMissing, match="'nowhere'"):
        await on.scheduler.names("nowhere", prefix="delay.")


async def test_a_schedule_that_does_not_exist_is_none(on: SchedulerUnderTest) -> None:
    assert await on.scheduler.get(on.group, "missing") is None


async def test_names_are_listed_by_their_prefix_and_of_one_group(on: SchedulerUnderTest) -> None:
    await create(on, one_time(on), one_time(on, name="delay.2"), recurring(on))
    assert sorted(await on.scheduler.names(on.group, prefix="delay.")) == ["delay.1", "delay.2"]
    assert await on.scheduler.names(on.group, prefix="other.") == []


@needs(SchedulerFeature.PAGES)
async def test_more_names_than_a_page_holds_are_listed(on: SchedulerUnderTest) -> None:
    names = [f"delay.{number:03}" for number in range(101)]
    await create(on, *(one_time(on, name=name) for name in names))
    assert sorted(await on.scheduler.names(on.group, prefix="delay.")) == names


async def test_an_update_replaces_what_a_schedule_does_and_when(on: SchedulerUnderTest) -> None:
    await create(on, recurring(on))
    changed = recurring(
        on,
        expression="rate(5 minutes)",
        timezone="UTC",
        start=None,
        end=None,
        flexible_minutes=None,
        enabled=True,
        input="{}",
        description="",
    )
    assert await on.scheduler.update(changed)
    assert await found(on, changed.name) == changed


@needs(SchedulerFeature.START_AT_CREATION)
async def test_no_recurring_schedule_is_created_with_a_start_long_ago(
    on: SchedulerUnderTest,
) -> None:
    begun = datetime.now(UTC) - timedelta(minutes=6)
    with pytest.raises(TransportError, match="StartDate"):
        await on.scheduler.create(recurring(on, start=begun), token="any")  # noqa: S106 - a request's name
    assert await on.scheduler.get(on.group, "dynamic.nightly") is None


@needs(SchedulerFeature.START_AT_UPDATE)
async def test_no_recurring_schedule_is_updated_with_a_start_long_ago(
    on: SchedulerUnderTest,
) -> None:
    await create(on, recurring(on))
    begun = datetime.now(UTC) - timedelta(minutes=6)
    with pytest.raises(TransportError, match="StartDate"):
        await on.scheduler.update(recurring(on, start=begun))
    assert (await found(on, "dynamic.nightly")).start == YEAR_2100


async def test_a_start_a_few_minutes_ago_is_taken(on: SchedulerUnderTest) -> None:
    begun = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=4)
    await create(on, recurring(on, start=begun))
    assert (await found(on, "dynamic.nightly")).start == begun


@needs(SchedulerFeature.UPDATES_EVERYTHING)
async def test_an_update_replaces_what_happens_after_completion(on: SchedulerUnderTest) -> None:
    await create(on, recurring(on))
    assert await on.scheduler.update(recurring(on, delete_when_done=False))
    assert not (await found(on, "dynamic.nightly")).delete_when_done


async def test_an_update_keeps_the_time_of_creation(on: SchedulerUnderTest) -> None:
    await create(on, one_time(on))
    before = await on.scheduler.get(on.group, "delay.1")
    assert await on.scheduler.update(one_time(on, enabled=False))
    after = await on.scheduler.get(on.group, "delay.1")
    assert before is not None
    assert after is not None
    assert after.created_at == before.created_at


async def test_a_schedule_that_does_not_exist_is_not_updated(on: SchedulerUnderTest) -> None:
    assert not await on.scheduler.update(one_time(on))
    assert await on.scheduler.get(on.group, "delay.1") is None


async def test_a_deleted_schedule_is_gone_and_deleting_it_again_says_so(
    on: SchedulerUnderTest,
) -> None:
    await create(on, one_time(on))
    assert await on.scheduler.delete(on.group, "delay.1")
    assert await on.scheduler.get(on.group, "delay.1") is None
    assert not await on.scheduler.delete(on.group, "delay.1")


async def test_context_attributes_that_were_made_literal_come_back_so(
    on: SchedulerUnderTest,
) -> None:
    text = '{"a":"\\u003caws.scheduler.scheduled-time>"}'
    await create(on, one_time(on, input=text))
    assert (await found(on, "delay.1")).input == text
