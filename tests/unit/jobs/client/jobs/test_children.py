"""``client.jobs.children``: the jobs that a job submitted, or that ran it again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import (
    App,
    AsyncClient,
    JobContext,
    JobFilter,
    JobState,
    Keep,
    Retry,
    Tenant,
    Unique,
)
from headgate.errors import ConfigurationError
from headgate.jobs.aws.dynamo.attributes import encode, size_of
from headgate.jobs.client.jobs.children import ChildPage
from headgate.jobs.client.submitting.submission_records import drain_records
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.core.topology import Priority
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.records.lists.children import child_item, children_partition
from headgate.testing import Harness
from tests.support.clients import Kind, awaited
from tests.support.story import JOB, START

SECOND = timedelta(seconds=1)


class Note(BaseModel):
    text: str = ""


class Family:
    """A job in memory whose handler submits children."""

    def __init__(self, kind: Kind = "Client", *children: dict[str, Any], **options: Any) -> None:
        self.app = App("shop")
        self.child = self.app.define("child", Note, retry=Retry(max_attempts=1), **options)
        self.child.handler(_play)
        self.parent = self.app.define("parent")
        self.parent.handler(self._bring_up)
        self.jobs = Harness(self.app)
        self.client: AsyncClient = (
            self.jobs.async_client if kind == "AsyncClient" else awaited(self.jobs.client)
        )
        self.children = children
        self.ids: list[str] = []
        self.parent_id = ""

    async def begin(self) -> None:
        """Run the parent, so that its children wait."""
        await self.jobs.arun(self.parent)

    async def _bring_up(self, ctx: JobContext) -> None:
        self.parent_id = ctx.id
        for each in self.children:
            self.jobs.clock.advance(SECOND)
            text = each.get("text", "good")
            options = {name: value for name, value in each.items() if name != "text"}
            self.ids.append((await ctx.submit(self.child, Note(text=text), **options)).id)

    async def listed(self, **options: Any) -> ChildPage:
        return await self.client.jobs.children(self.parent_id, **options)

    async def states(self) -> list[JobState]:
        return [each.state for each in (await self.listed()).jobs]

    async def entries(self) -> list[Item]:
        return await self.jobs.table.query(children_partition(self.parent_id))


async def _play(note: Note) -> None:
    if note.text == "bad":
        raise ConnectionError("the swing broke")


# --- lists ---------------------------------------------------------------------------------------


async def test_children_are_listed_as_they_were_submitted_each_in_its_present_state(
    kind: Kind,
) -> None:
    family = Family(
        kind,
        {"tenant": "org-1"},
        {"text": "bad"},
        {"delay": timedelta(days=3)},
    )
    await family.begin()
    page = await family.listed()
    assert [each.id for each in page.jobs] == family.ids
    assert (page.next, page.skipped) == ("", 0)
    assert await family.states() == ["waiting", "waiting", "delayed"]
    first = page.jobs[0]
    assert (first.type, first.queue, first.priority) == ("child", "jobs", "normal")
    assert (first.tenant, first.attempts) == (Tenant(org="org-1"), 0)
    assert first.changed_at == first.submitted_at

    await family.jobs.adrain()

    assert await family.states() == ["completed", "dead", "completed"]
    dead = (await family.listed()).jobs[1]
    assert (dead.error_type, dead.error_message) == ("ConnectionError", "the swing broke")
    assert dead.submitted_at is not None
    assert dead.changed_at > dead.submitted_at


async def test_pages_follow_one_another_until_all_children_were_listed(kind: Kind) -> None:
    family = Family(kind, *({} for _ in range(5)))
    await family.begin()
    seen, after = list[str](), ""
    for expected in (2, 2, 1):
        page = await family.listed(limit=2, after=after)
        assert len(page.jobs) == expected
        seen += [each.id for each in page.jobs]
        after = page.next
    assert (seen, after) == (family.ids, "")


async def test_a_job_that_ran_again_is_a_child_of_the_first(kind: Kind) -> None:
    family = Family(kind, {"text": "bad"})
    await family.begin()
    await family.jobs.adrain()
    [dead] = (await family.client.jobs.list(JobFilter(states=("dead",)))).jobs
    again = await family.client.jobs.rerun(dead.id)
    if kind == "AsyncClient":
        await drain_records(family.client)
    [child] = (await family.client.jobs.children(dead.id)).jobs
    assert (child.id, child.state) == (again.id, "waiting")


async def test_a_duplicate_of_a_unique_job_is_no_second_child() -> None:
    family = Family("Client", {}, {}, unique=Unique(within=3600))
    await family.begin()
    assert family.ids[0] == family.ids[1]
    assert [each.id for each in (await family.listed()).jobs] == family.ids[:1]


async def test_a_job_without_children_has_an_empty_page(kind: Kind) -> None:
    family = Family(kind)
    await family.begin()
    assert await family.listed() == ChildPage(jobs=[], next="", skipped=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "limit must lie between 1 and 1,000"),
        ({"limit": 1_001}, "limit must lie between 1 and 1,000"),
        ({"after": "not base64!"}, "is the end of no page"),
        ({"after": "A" * 4_000}, "is the end of no page"),
    ],
)
async def test_a_page_that_can_not_be_is_refused(
    options: dict[str, Any], message: str, kind: Kind
) -> None:
    family = Family(kind)
    await family.begin()
    with pytest.raises(ConfigurationError, match=message):
        await family.listed(**options)


async def test_what_is_no_id_is_refused(kind: Kind) -> None:
    with pytest.raises(ValueError, match="'42' is not a job id"):
        await Family(kind).client.jobs.children("42")


async def test_items_that_are_no_entries_are_skipped_and_counted(kind: Kind) -> None:
    family = Family(kind, {})
    await family.begin()
    pk = children_partition(family.parent_id)
    told = {"at": START.isoformat(), "type": "child"}
    strange = [
        Item(pk=pk, sk="no id", data=told),
        Item(pk=pk, sk=JOB.upper(), data=told),
        Item(pk=pk, sk=JOB[:-1] + "2", data={**told, "at": "yesterday"}),
        Item(pk=pk, sk=JOB[:-1] + "3", data={**told, "type": ["child"]}),
        Item(pk=pk, sk=JOB[:-1] + "4"),
    ]
    assert await family.jobs.table.put(strange) == []
    page = await family.listed()
    assert [each.id for each in page.jobs] == family.ids
    assert page.skipped == len(strange)


# --- entries -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "keep", "entered"),
    [
        ("off", Keep(), False),
        ("failures", Keep(), False),
        ("outcomes", Keep(), True),
        ("full", Keep(), True),
        ("full", Keep(0), False),
    ],
)
async def test_a_child_is_entered_where_its_end_is_recorded(
    level: RecordsLevel, keep: Keep, *, entered: bool
) -> None:
    family = Family("Client", {}, records=level, keep=keep)
    await family.begin()
    assert bool(await family.entries()) is entered


async def test_a_submission_may_keep_a_child_in_the_list_for_itself() -> None:
    family = Family("Client", {"keep": Keep(timedelta(days=60))}, keep=Keep(0))
    await family.begin()
    [entry] = await family.entries()
    assert entry.expires_at == family.jobs.clock.now() + timedelta(days=60)


def envelope(**told: Any) -> Envelope:
    return Envelope(
        v=1,
        id=new_job_id(START),
        type="child",
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=START,
        parent=JOB,
        payload={},
        **told,
    )


def test_an_entry_lasts_as_long_as_the_records_of_its_job_may() -> None:
    keep = Keep(timedelta(days=7), failed=timedelta(days=30))
    assert child_item(envelope(), keep).expires_at == START + timedelta(days=30)
    due = START + timedelta(days=300)
    assert child_item(envelope(not_before=due), keep).expires_at == due + timedelta(days=30)


def test_a_job_that_is_due_at_the_end_of_time_is_entered_for_ever() -> None:
    due = datetime(9999, 12, 31, tzinfo=UTC)
    assert child_item(envelope(not_before=due), Keep()).expires_at is None


def test_an_entry_takes_one_write_unit_however_long_its_names_are() -> None:
    tenant = Tenant(org="o" * 128, workspace="w" * 1_000)
    longest = envelope(tenant=tenant, not_before=START).model_copy(update={"type": "t" * 128})
    assert size_of(encode(child_item(longest, Keep()))) < 1_024
