"""``client.jobs``: lists and counts of jobs, true whatever happened since they were listed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from headgate import App, AsyncClient, JobFilter, JobState, Tenant
from headgate.errors import ConfigurationError
from headgate.jobs.client.jobs.desk import MOST_LISTED
from headgate.jobs.client.jobs.pages import JobPage
from headgate.jobs.core.ports.table import Item, ListLine
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.records.items import LISTS, SHARDS, line_of, list_name
from headgate.jobs.records.lists.entries import STATES
from headgate.jobs.records.state import Happening, order_of
from headgate.jobs.testing import MemorySqs
from headgate.testing import MemoryTable, VirtualClock
from tests.support.clients import Kind, client_of
from tests.support.story import START, Story

LATER = START + timedelta(days=1)

SUBMISSION: dict[str, Any] = {
    "attempt": 1,
    "submitted_at": START.isoformat(),
    "priority": "normal",
}
"""The facts about its submission that each item of a job's deliveries repeats."""


class CountingTable(MemoryTable):
    """A table that counts the items that are read from it."""

    read = 0

    async def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        found = await super().lines(name, after=after, before=before, limit=limit)
        self.read += len(found)
        return found

    async def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        found = await super().query(pk, prefix=prefix)
        self.read += len(found)
        return found


class Office:
    """A client of one kind, and a table to write jobs' stories into."""

    def __init__(
        self,
        kind: Kind = "AsyncClient",
        types: Sequence[str] = ("send",),
        *,
        now: datetime = LATER,
    ) -> None:
        self.app = App("shop")
        for name in types:
            self.app.define(name, dict)
        clock = VirtualClock(now)
        sqs = MemorySqs(clock)
        sqs.provision(self.app.topology)
        self.table = CountingTable(clock)
        self.client: AsyncClient = client_of(
            kind, self.app, sqs, table=self.table, clock=clock, sleep=clock.advance
        )

    def story(self, *, at: float = 0, job_type: str = "send") -> Story:
        start = START + timedelta(seconds=at)
        return Story(str(new_job_id(start)), start=start, job_type=job_type)

    async def write(self, *stories: Story) -> None:
        items = [item for story in stories for item in story.items]
        for first in range(0, len(items), 25):
            assert await self.table.put(items[first : first + 25]) == []

    async def listed(self, **wanted: Any) -> list[tuple[str, JobState]]:
        page = await self.client.jobs.list(JobFilter(**wanted))
        return [(each.id, each.state) for each in page.jobs]


@pytest.fixture
def office(kind: Kind) -> Office:
    return Office(kind)


# --- lists ---------------------------------------------------------------------------------------


async def test_an_app_of_which_nothing_is_listed_has_an_empty_page(office: Office) -> None:
    assert await office.client.jobs.list() == JobPage(jobs=[], next="")
    counts = await office.client.jobs.count()
    assert (counts.total, counts.oldest, counts.complete) == (0, None, True)


async def test_jobs_are_listed_with_what_their_records_tell_the_newest_first(
    office: Office,
) -> None:
    told: dict[str, Any] = {
        "attempt": 1,
        "priority": "high",
        "tenant": {"org": "org-1"},
        "submitted_at": START.isoformat(),
        "error_type": "ValueError",
        "error_message": "boom",
    }
    first = office.story().run(1, "failed", **told)
    second = office.story(at=5).run(1, "failed", **told)
    second.run(2, "dead", reason="attempts-exhausted", **told)
    await office.write(first, second)

    page = await office.client.jobs.list()

    dead, retrying = page.jobs
    assert (dead.id, dead.state, dead.changed_at) == (second.job_id, "dead", second.at(2))
    assert (dead.type, dead.queue, dead.priority, dead.tenant) == (
        *("send", "mail", "high"),
        Tenant(org="org-1"),
    )
    assert (dead.submitted_at, dead.attempts, dead.worker) == (START, 1, "w-1")
    assert (dead.reason, dead.error_type, dead.error_message) == (
        *("attempts-exhausted", "ValueError"),
        "boom",
    )
    assert (retrying.id, retrying.state, retrying.error_type) == (
        *(first.job_id, "retrying"),
        "ValueError",
    )
    assert page.next == ""


STORIES: list[tuple[str, Story, JobState | None]] = [
    ("failed twice", Story().run(1, "failed").run(9, "failed", 2), JobState.RETRYING),
    ("crashed", Story().run(1, "crashed"), JobState.RETRYING),
    ("failed, and runs again", Story().run(1, "failed").run(9, "started", 2), JobState.RUNNING),
    ("failed and died at once", Story().run(1, "failed").run(1, "dead"), JobState.DEAD),
    ("quarantined", Story().run(1, "crashed").run(2, "quarantined"), JobState.QUARANTINED),
    ("dead, then replayed", Story().run(1, "dead").replayed(9), JobState.WAITING),
    (
        "dead, replayed, and dead again",
        Story().run(1, "dead").replayed(9).run(10, "dead", message="m-2"),
        JobState.DEAD,
    ),
    (
        "dead, replayed, and completed",
        Story()
        .run(1, "dead")
        .replayed(9)
        .run(10, "completed", message="m-2", attempt=1, source="replay:r-1"),
        JobState.COMPLETED,
    ),
    ("cancelled", Story().cancel(1).run(2, "cancelled"), JobState.CANCELLED),
    (
        "failed, then completed",
        Story().run(1, "failed", attempt=1).run(9, "completed", 2, attempt=2),
        JobState.COMPLETED,
    ),
    (
        "failed, then discarded",
        Story().run(1, "failed", attempt=1).run(9, "discarded", 2, attempt=2),
        JobState.DISCARDED,
    ),
    (
        "failed, then dropped",
        Story().run(1, "failed", attempt=1).run(9, "dropped", 2, attempt=2),
        JobState.DROPPED,
    ),
    ("completed at once", Story().run(1, "completed", attempt=1), None),
    ("only given back", Story().run(1, "released", attempt=1), None),
]


@pytest.mark.parametrize(
    ("story", "state"), [pytest.param(story, state, id=name) for name, story, state in STORIES]
)
async def test_each_job_is_listed_once_in_the_state_that_it_is_in(
    story: Story, state: JobState | None
) -> None:
    office = Office(now=START + timedelta(hours=1))
    await office.write(story)
    expected = [] if state is None else [(story.job_id, state)]
    assert await office.listed() == expected
    for each in (each for each in STATES.values() if each is not JobState.WAITING):
        assert await office.listed(states=(each,)) == (expected if each is state else [])


BEGUN = Story().run(1, "started", attempt=1)

RUNNING: list[tuple[str, Story, bool]] = [
    ("begun", BEGUN, True),
    ("failed, and runs again", Story().run(1, "failed").run(9, "started", 2), True),
    ("interrupted", Story().run(1, "started").run(2, "interrupted"), False),
    ("completed", Story().run(1, "started").run(2, "completed", attempt=1), False),
    ("failed", Story().run(1, "started").run(2, "failed"), False),
    ("completed later", Story().run(1, "started", 2).run(2, "completed", 2, attempt=2), False),
    ("dead", Story().run(1, "started").run(2, "failed").run(3, "dead"), False),
]


@pytest.mark.parametrize(
    ("story", "runs"), [pytest.param(story, runs, id=name) for name, story, runs in RUNNING]
)
async def test_a_job_is_listed_as_running_until_its_attempt_ends(story: Story, runs: bool) -> None:
    office = Office(now=START + timedelta(hours=1))
    await office.write(story)
    found = [(story.job_id, JobState.RUNNING)] if runs else []
    assert await office.listed(states=("running",)) == found
    assert await office.listed(states=("running", "cancelled")) == found


async def test_a_running_job_that_was_not_listed_before_is_listed_only_if_asked_for() -> None:
    office = Office(now=START + timedelta(hours=1))
    await office.write(BEGUN)
    assert await office.listed() == []
    assert await office.listed(states=("retrying",)) == []


async def test_jobs_that_ended_since_are_read_past_to_those_that_still_run() -> None:
    office = Office(now=START + timedelta(hours=1))
    runs = office.story().run(0, "started", attempt=1)
    ended = [
        office.story(at=each).run(0, "started", attempt=1).run(1, "completed", attempt=1)
        for each in range(1, 30)
    ]
    await office.write(runs, *ended)
    page = await office.client.jobs.list(JobFilter(states=("running",)), limit=2)
    assert [each.id for each in page.jobs] == [runs.job_id]
    short = await office.client.jobs.list(JobFilter(states=("running",)), limit=1)
    assert ([each.id for each in short.jobs], bool(short.next)) == ([], True)
    rest = await office.client.jobs.list(JobFilter(states=("running",)), limit=1, after=short.next)
    assert [each.id for each in rest.jobs] == [runs.job_id]


async def test_starts_older_than_any_attempt_are_not_read() -> None:
    office = Office(now=START + timedelta(hours=12, seconds=2))
    await office.write(BEGUN)
    assert await office.listed(states=("running",)) == []
    assert office.table.read == 0


async def test_running_jobs_are_selected_by_type_queue_tenant_and_time() -> None:
    office = Office(now=START + timedelta(hours=1), types=("send", "charge"))
    one = office.story().run(0, "started", attempt=1, queue="mail", tenant={"org": "org-1"})
    two = office.story(at=60, job_type="charge").run(0, "started", attempt=1, queue="money")
    await office.write(one, two)
    running = {"states": ("running",)}
    assert [found for found, _ in await office.listed(**running)] == [two.job_id, one.job_id]
    for selected in (
        {"types": ("send",)},
        {"queues": ("mail",)},
        {"tenants": ("org-1",)},
        {"until": START + timedelta(seconds=60)},
    ):
        assert [found for found, _ in await office.listed(**running, **selected)] == [one.job_id]


async def test_running_jobs_are_cancelled_by_a_filter(office: Office) -> None:
    await office.write(office.story(at=86_000).run(0, "started", attempt=1))
    cancelled = await office.client.jobs.cancel(JobFilter(states=("running",)))
    assert [each.state for each in cancelled.jobs] == [JobState.RUNNING]


async def test_running_jobs_can_not_be_counted_and_the_error_says_what_to_do(
    office: Office,
) -> None:
    with pytest.raises(ConfigurationError, match="List them, or see `headgate workers list`"):
        await office.client.jobs.count(JobFilter(states=("running",)))


def _filtered(office: Office) -> tuple[Story, Story, Story]:
    mail: dict[str, Any] = {"queue": "mail", "tenant": {"org": "org-1"}}
    first = office.story().run(0, "dead", attempt=1, **mail)
    second = office.story(at=60, job_type="charge").run(0, "dead", attempt=1, queue="money")
    third = office.story(at=120).run(0, "cancelled", attempt=1, **mail)
    return first, second, third


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [2, 1, 0]),
        ({"types": ("send",)}, [2, 0]),
        ({"types": ("charge", "send")}, [2, 1, 0]),
        ({"states": ("dead",)}, [1, 0]),
        ({"states": ("dead", "cancelled"), "queues": ("mail",)}, [2, 0]),
        ({"queues": ("money",)}, [1]),
        ({"tenants": ("org-1",)}, [2, 0]),
        ({"tenants": ("org-2",)}, []),
        ({"since": START + timedelta(seconds=60)}, [2, 1]),
        ({"until": START + timedelta(seconds=60)}, [0]),
        ({"since": START, "until": START + timedelta(seconds=61)}, [1, 0]),
        ({"since": timedelta(days=1)}, [2, 1, 0]),
        ({"since": timedelta(days=1, seconds=-60)}, [2, 1]),
        ({"until": timedelta(days=1, seconds=-60)}, [0]),
    ],
)
async def test_jobs_are_selected_by_state_type_queue_tenant_and_time(
    wanted: dict[str, Any], found: list[int]
) -> None:
    office = Office(types=("send", "charge"))
    stories = _filtered(office)
    await office.write(*stories)
    assert [job_id for job_id, _ in await office.listed(**wanted)] == [
        stories[each].job_id for each in found
    ]
    counts = await office.client.jobs.count(JobFilter(**wanted))
    assert counts.total == len(found)


async def test_jobs_of_a_type_that_the_app_has_no_more_are_listed_by_its_name(
    office: Office,
) -> None:
    gone = office.story(job_type="gone").run(1, "dead", attempt=1)
    await office.write(gone)
    assert await office.listed() == []
    assert await office.listed(types=("gone",)) == [(gone.job_id, JobState.DEAD)]


async def test_completed_jobs_are_listed_where_they_are_kept_by_count_or_in_full() -> None:
    office = Office()
    story = office.story()
    item = story.run(1, "completed", attempt=1).items[0]
    assert item.line is None
    line = line_of("completed", story.job_id, story.at(1), item.data)
    await office.table.put([Item(pk=item.pk, sk=item.sk, data=item.data, line=line)])
    assert await office.listed(states=("completed",)) == [(story.job_id, JobState.COMPLETED)]


async def test_strange_entries_are_left_out(office: Office) -> None:
    good = office.story().run(1, "dead", attempt=1)
    await office.write(good)
    for number, (place, summary) in enumerate(
        [
            ("soon#x", {}),
            ("#", {}),
            (f"{START.isoformat()}#", {}),
            (START.isoformat(), {"queue": 7}),
        ]
    ):
        line = ListLine(list=list_name("dead", "send", 0), place=place, summary=summary)
        await office.table.put([Item(pk="x", sk=str(number), line=line)])
    forged = ListLine(list=list_name("dead", "send", 1), place=f"{LATER.isoformat()}#{good.job_id}")
    await office.table.put([Item(pk="x", sk="forged", line=forged)])
    assert await office.listed() == []  # its newest entry is none of its own
    forged_gone = await office.table.delete([("x", "forged")])
    assert forged_gone == []
    assert await office.listed() == [(good.job_id, JobState.DEAD)]


# --- pages ---------------------------------------------------------------------------------------


async def test_pages_follow_one_another_without_a_gap_or_a_repetition(office: Office) -> None:
    stories = [office.story(at=at).run(0, "dead", attempt=1) for at in (*range(20), 7, 7)]
    twice = office.story(at=30).run(0, "failed", attempt=1).run(9, "dead", attempt=1)
    await office.write(*stories, twice)
    found: list[str] = []
    page = await office.client.jobs.list(limit=3)
    while True:
        found += [each.id for each in page.jobs]
        if not page.next:
            break
        page = await office.client.jobs.list(limit=3, after=page.next)
    assert found[0] == twice.job_id
    assert sorted(found) == sorted({twice.job_id, *(each.job_id for each in stories)})


async def test_what_comes_between_two_pages_shifts_neither(office: Office) -> None:
    stories = [office.story(at=at).run(0, "dead", attempt=1) for at in range(4)]
    await office.write(*stories)
    page = await office.client.jobs.list(limit=2)
    await office.write(office.story(at=9).run(0, "dead", attempt=1))
    rest = await office.client.jobs.list(limit=2, after=page.next)
    assert [each.id for each in (*page.jobs, *rest.jobs)] == [
        each.job_id for each in reversed(stories)
    ]


async def test_a_page_that_finds_few_ends_early_and_says_where_to_go_on(office: Office) -> None:
    wanted = office.story().run(0, "dead", attempt=1, tenant={"org": "org-1"})
    others = [office.story(at=at + 1).run(0, "dead", attempt=1) for at in range(50)]
    await office.write(wanted, *others)
    chosen = JobFilter(tenants=("org-1",))
    page = await office.client.jobs.list(chosen, limit=1)
    assert (page.jobs, bool(page.next)) == ([], True)
    looks = 1
    while not page.jobs:
        page = await office.client.jobs.list(chosen, limit=1, after=page.next)
        looks += 1
    assert ([each.id for each in page.jobs], looks) == ([wanted.job_id], 3)


@pytest.mark.parametrize("jobs", [100, 2_000])
async def test_a_page_costs_the_same_however_many_jobs_are_recorded(jobs: int) -> None:
    office = Office()
    await office.write(*(office.story(at=at / 8).run(0, "dead", attempt=1) for at in range(jobs)))
    page = await office.client.jobs.list(JobFilter(states=("dead",)), limit=10)
    office.table.calls.clear()
    office.table.read = 0

    page = await office.client.jobs.list(JobFilter(states=("dead",)), limit=10, after=page.next)

    assert len(page.jobs) == 10
    assert sorted(office.table.calls) == ["lines"] * SHARDS + ["query"] * 20
    assert office.table.read <= SHARDS * 25 + 10


async def test_a_page_reads_past_as_many_entries_as_it_is_to() -> None:
    office = Office()
    wanted = office.story().run(0, "dead", attempt=1, tenant={"org": "org-1"})
    others = [office.story(at=at / 8 + 1).run(0, "dead", attempt=1) for at in range(2_000)]
    await office.write(wanted, *others)
    office.table.calls.clear()
    chosen = JobFilter(states=("dead",), tenants=("org-1",))

    page = await office.client.jobs.list(chosen, most=10_000)

    assert ([each.id for each in page.jobs], page.next) == ([wanted.job_id], "")
    assert office.table.calls.count("query") == 2, "only the records of the job that is shown"
    assert office.table.calls.count("lines") <= SHARDS * 6, "each request reads twice as many"


async def test_a_job_that_ended_since_it_was_listed_as_running_takes_one_query() -> None:
    office = Office(now=START + timedelta(hours=1))
    runs = office.story().run(0, "started", attempt=1)
    ended = [
        office.story(at=each).run(0, "started", attempt=1).run(1, "completed", attempt=1)
        for each in range(1, 31)
    ]
    await office.write(runs, *ended)
    office.table.calls.clear()
    page = await office.client.jobs.list(JobFilter(states=("running",)), limit=5)
    assert [each.id for each in page.jobs] == [runs.job_id]
    assert office.table.calls.count("query") == len(ended) + 2


@pytest.mark.parametrize(
    ("story", "queries"),
    [
        pytest.param(Story().run(1, "cancelled", **SUBMISSION), 1, id="cancelled"),
        pytest.param(Story().run(1, "cancelled"), 2, id="of an unknown submission"),
        pytest.param(Story().run(1, "failed", **SUBMISSION), 2, id="retrying"),
        pytest.param(Story().run(1, "dead", **SUBMISSION), 2, id="dead"),
        pytest.param(
            Story().run(1, "dead", **SUBMISSION).run(9, "cancelled", message="m-2", **SUBMISSION),
            2,
            id="cancelled after a replay",
        ),
    ],
)
async def test_a_job_that_ended_for_good_takes_one_query(story: Story, queries: int) -> None:
    office = Office()
    await office.write(story)
    page = await office.client.jobs.list()
    assert [each.id for each in page.jobs] == [story.job_id]
    assert office.table.calls.count("query") == queries


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 30])
async def test_pages_of_jobs_among_many_that_have_ended_leave_none_out(limit: int) -> None:
    office = Office(now=START + timedelta(hours=1))
    stories = [office.story(at=at).run(0, "started", attempt=1) for at in range(90)]
    for number, story in enumerate(stories):
        if number % 3 or 30 < number < 60:
            story.run(1, "completed", attempt=1)
    await office.write(*stories)
    running, found = JobFilter(states=("running",)), list[str]()
    page = await office.client.jobs.list(running, limit=limit)
    found += [each.id for each in page.jobs]
    while page.next:
        page = await office.client.jobs.list(running, limit=limit, after=page.next)
        assert len(page.jobs) <= limit
        found += [each.id for each in page.jobs]
    assert found == [each.job_id for each in reversed(stories) if len(each.items) == 1]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        ({"most": 0}, "most must be at least 1, got 0"),
        ({"limit": 0}, "limit must lie between 1 and 1,000, got 0"),
        ({"limit": MOST_LISTED + 1}, "got 1001"),
        ({"after": "nonsense"}, "'nonsense' is the end of no page"),
        ({"after": "\u20ac"}, "is the end of no page"),
    ],
)
async def test_a_page_that_can_not_be_is_refused(
    office: Office, ask: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        await office.client.jobs.list(**ask)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"states": "dead"}, r"states takes a tuple of texts, got 'dead': write \('dead',\)"),
        ({"states": ("waiting",)}, "jobs that are waiting are not listed: SQS tells only how many"),
        ({"states": ("delayed",)}, "jobs that are delayed are not listed"),
        ({"states": ("unknown",)}, "jobs that are unknown are not listed"),
        ({"states": ("daed",)}, "there is no state 'daed': did you mean 'dead'?"),
        ({"types": ("",)}, "types has an empty text"),
        ({"since": datetime(2026, 1, 1)}, "since has no time zone"),  # noqa: DTZ001 - the point
        ({"since": START, "until": START}, "nothing is both since"),
    ],
)
def test_a_filter_that_selects_nothing_is_refused(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        JobFilter(**wanted)


# --- counts --------------------------------------------------------------------------------------


async def test_jobs_are_counted_by_type_and_state_each_once(office: Office) -> None:
    await office.write(*(story for _, story, _ in STORIES[:1]))
    for at in range(3):
        await office.write(
            office.story(at=at).run(0, "failed", attempt=1).run(1, "dead", attempt=1)
        )
    counts = await office.client.jobs.count()
    assert [(each.type, each.state, each.count) for each in counts.counts] == [
        ("send", JobState.DEAD, 3),
        ("send", JobState.RETRYING, 1),
    ]
    assert (counts.total, counts.oldest, counts.complete) == (4, START, True)
    only = await office.client.jobs.count(JobFilter(states=("dead",)))
    assert only.total == 3


async def test_of_entries_with_the_same_time_the_last_of_the_lists_counts(office: Office) -> None:
    at_once = [office.story(at=at) for at in range(8)]  # in all shards, most likely
    for story in at_once:
        await office.write(story.run(0, "failed", attempt=1).run(0, "dead", attempt=1))
    counts = await office.client.jobs.count()
    assert [(each.state, each.count) for each in counts.counts] == [(JobState.DEAD, 8)]


def test_lists_are_ordered_as_what_happens_at_the_same_time_is_in_a_history() -> None:
    happenings = {
        name: Happening(at=START, what=what) for what, name in LISTS.items() if what != "crashed"
    }
    assert [*STATES] == sorted(happenings, key=lambda name: order_of(happenings[name]))


async def test_a_count_is_bounded_and_says_how_far_back_it_got(office: Office) -> None:
    stories = [office.story(at=at).run(0, "dead", attempt=1) for at in range(6)]
    await office.write(*stories)
    counts = await office.client.jobs.count(most=4)
    assert (counts.total, counts.oldest, counts.complete) == (4, stories[2].at(0), False)
    assert (await office.client.jobs.count(most=6)).complete


async def test_a_small_count_reads_little_of_long_lists(office: Office) -> None:
    await office.write(*(office.story(at=at / 8).run(0, "dead", attempt=1) for at in range(1_200)))
    office.table.read = 0
    counts = await office.client.jobs.count(most=200)
    assert (counts.total, counts.complete) == (200, False)
    assert office.table.read <= 700
    assert (await office.client.jobs.count()).total == 1_200
