"""``client.jobs``: cancelling jobs by a filter, and running jobs again."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from headgate import (
    Accepts,
    App,
    Backoff,
    Encryption,
    JobFilter,
    JobHandle,
    JobState,
    Priority,
    Retry,
    Tenant,
    Unique,
)
from headgate.errors import (
    JobNotEnded,
    OptionInvalid,
    PayloadInvalid,
    PayloadLost,
    PayloadUnknown,
    UnknownJobType,
)
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.messages.envelope import parse
from headgate.jobs.testing.next_message import DrainUnfinished
from headgate.testing import Harness
from tests.support.story import JOB, Story

ONCE = Retry(max_attempts=1)


class Email(BaseModel):
    to: str


class Office:
    """A harness whose jobs fail until they are to work."""

    def __init__(self, **options: Any) -> None:
        self.app = App("shop", priorities="all", max_message_bytes=2_000, **options)
        self.works = False
        self.ran: list[Any] = []
        self.ledger = self.app.queue("ledger", fifo=True)
        self.send = self.app.define("send", Email, retry=ONCE, unique=Unique(within=3600))
        self.book = self.ledger.define("book", dict, retry=ONCE, group_by=lambda each: each["to"])
        self.take = self.app.define("take", dict, retry=ONCE, accepts=Accepts.json())
        self.tick = self.app.define("tick", retry=ONCE)
        self.stamp = self.ledger.define("stamp", dict, retry=ONCE)
        self.beat = self.ledger.define("beat", retry=ONCE)
        self.stamp.handler(self._act)
        self.beat.handler(self._tick)
        self.send.handler(self._send)
        self.book.handler(self._act)
        self.take.handler(self._act)
        self.tick.handler(self._tick)
        self.jobs = Harness(self.app)

    def _send(self, email: Email) -> None:
        self._act({"to": email.to})

    def _act(self, payload: dict[str, Any]) -> None:
        self.ran.append(payload)
        if not self.works:
            raise ConnectionError("refused")

    def _tick(self) -> None:
        self._act({})

    def again(self, job_id: str, **options: Any) -> JobHandle[Any]:
        """Run a job again, and return the new one's handle."""
        return self.jobs.client.jobs.rerun(job_id, **options)

    def message(self, queue: str = "shop-jobs-normal") -> OutgoingMessage:
        [message] = self.jobs.sqs.messages(queue)
        return OutgoingMessage(body=message.body, group=message.group)


@pytest.fixture
def office() -> Office:
    return Office()


# --- run again -----------------------------------------------------------------------------------


def test_a_dead_job_runs_again_as_a_new_one_with_its_payload_and_its_parent(
    office: Office,
) -> None:
    client = office.jobs.client
    job = client.submit(office.send, Email(to="a"), tenant="org-1", priority="high")
    office.jobs.drain()
    again = office.again(job.id)
    envelope = parse(office.message("shop-jobs-high").body)
    assert (str(envelope.parent), envelope.priority) == (job.id, Priority.HIGH)
    assert (envelope.tenant and envelope.tenant.org, envelope.options) == ("org-1", None)
    office.works = True
    office.jobs.drain()
    assert (again.state(), job.state()) == (JobState.COMPLETED, JobState.DEAD)
    assert (again.history().parent, office.ran) == (job.id, [{"to": "a"}] * 2)
    assert len(office.jobs.dead_letters()) == 1


def test_a_job_with_a_large_payload_runs_again_until_its_object_is_gone(office: Office) -> None:
    job = office.jobs.client.submit(office.send, Email(to="a" * 5_000))
    office.jobs.drain()
    office.works = True
    again = office.again(job.id)
    office.jobs.drain()
    assert again.state() is JobState.COMPLETED
    office.jobs.store.objects.clear()
    with pytest.raises(PayloadLost, match="it was deleted, or has expired"):
        office.again(job.id)


@pytest.mark.parametrize("length", [1, 5_000])
def test_a_sealed_payload_is_opened_and_sealed_for_the_new_job(length: int) -> None:
    office = Office(encryption=Encryption())
    job = office.jobs.client.submit(office.send, Email(to="a" * length))
    office.jobs.drain()
    office.works = True
    again = office.again(job.id)
    assert parse(office.message().body).sealed is not None
    office.jobs.drain()
    assert (again.state(), office.ran) == (JobState.COMPLETED, [{"to": "a" * length}] * 2)


def test_a_fifo_job_runs_again_in_its_group(office: Office) -> None:
    job = office.jobs.client.submit(office.book, {"to": "1"}, group="own")
    office.jobs.drain()
    office.again(job.id)
    assert office.message("shop-ledger-normal.fifo").group == "own"


@pytest.mark.parametrize(
    ("name", "given", "group"),
    [
        ("stamp", {}, "own"),
        ("stamp", {"payload": {"to": "2"}}, "own"),
        ("stamp", {"payload": {"to": "2"}, "group": "new"}, "new"),
        ("stamp", {"group": "new"}, "new"),
        ("beat", {}, "own"),
        ("book", {}, "own"),
        ("book", {"payload": {"to": "2"}}, "2"),
    ],
)
@pytest.mark.parametrize("tenant", [None, "org-1"])
def test_a_dead_fifo_job_keeps_its_group_unless_its_payload_tells_another(
    office: Office, name: str, given: dict[str, Any], group: str, tenant: str | None
) -> None:
    job_type = office.app.types[name]
    payload = () if name == "beat" else ({"to": "1"},)
    job = office.jobs.client.submit(job_type, *payload, group="own", tenant=tenant)
    office.jobs.drain()
    office.again(job.id, **given)
    assert office.message("shop-ledger-normal.fifo").group == group


def test_a_fifo_job_without_a_letter_runs_again_in_a_group_that_is_given(office: Office) -> None:
    office.works = True
    job = office.jobs.client.submit(office.beat, group="own")
    of_tenant = office.jobs.client.submit(office.beat, group="own", tenant="org-1")
    office.jobs.drain()
    with pytest.raises(OptionInvalid, match="needs a group"):
        office.again(job.id)
    office.again(job.id, group="own")
    assert office.message("shop-ledger-normal.fifo").group == "own"
    office.jobs.drain()
    office.again(of_tenant.id)
    assert office.message("shop-ledger-normal.fifo").group == "org-1"


def test_a_foreign_message_runs_again_as_a_job_of_its_type(office: Office) -> None:
    foreign = OutgoingMessage(body='{"to": "b"}', attributes={"JobType": "take"})
    assert office.jobs.sqs.sync.send("shop-jobs-normal", [foreign]) == []
    office.jobs.drain()
    [letter] = office.jobs.client.dead_letters.list().letters
    office.works = True
    again = office.again(letter.job_id or "")
    office.jobs.drain()
    assert (again.state(), office.ran) == (JobState.COMPLETED, [{"to": "b"}] * 2)


def test_a_completed_job_runs_again_with_a_payload_that_is_given(office: Office) -> None:
    office.works = True
    job = office.jobs.client.submit(office.send, Email(to="a"))
    office.jobs.drain()
    with pytest.raises(PayloadUnknown, match="is completed, and no message with its payload"):
        office.again(job.id)
    with pytest.raises(PayloadInvalid):
        office.again(job.id, payload={"to": 7})
    again = office.again(job.id, payload=Email(to="b"), priority="low")
    assert again.id != job.id
    office.jobs.drain()
    assert office.ran == [{"to": "a"}, {"to": "b"}]


def test_a_job_without_a_payload_runs_again_by_its_id_alone(office: Office) -> None:
    office.works = True
    job = office.jobs.client.submit(office.tick)
    office.jobs.drain()
    office.again(job.id)
    office.jobs.drain()
    assert office.ran == [{}, {}]


def test_only_a_job_that_has_ended_runs_again(office: Office) -> None:
    job = office.jobs.client.submit(office.send, Email(to="a"))
    with pytest.raises(JobNotEnded, match="is waiting: only a job that has ended") as raised:
        office.again(job.id)
    assert raised.value.job_id == job.id
    with pytest.raises(JobNotEnded, match="is unknown"):
        office.again(JOB)
    with pytest.raises(ValueError, match="'42' is not a job id"):
        office.again("42")


@pytest.mark.parametrize("last", ["started", "failed"])
def test_dead_letters_are_not_searched_for_a_job_that_is_told_to_be_under_way(
    office: Office, last: str
) -> None:
    story = Story(start=office.jobs.clock.now()).run(0, last, attempt=1)
    office.jobs.table.sync.put(story.items)
    with pytest.raises(JobNotEnded, match=r"Cancel it first, or wait for its end$"):
        office.again(story.job_id)
    assert office.jobs.sqs.calls == []


def test_the_search_for_a_job_that_seems_to_wait_is_short_and_says_what_it_did_not_see(
    office: Office,
) -> None:
    job = office.jobs.client.submit(office.send, Email(to="a"))
    sqs = office.jobs.sqs.sync
    assert sqs.send("shop-jobs-normal-dlq", [OutgoingMessage(body="{}")] * 3) == []
    sqs.receive("shop-jobs-normal-dlq", limit=2, wait_s=0)  # somebody else holds them
    with pytest.raises(JobNotEnded, match="About 2 dead letters were not looked at for it"):
        office.again(job.id)


def test_a_job_that_sqs_itself_has_moved_runs_again(office: Office) -> None:
    job = office.jobs.client.submit(office.send, Email(to="a"), tenant="org-1", priority="high")
    letter = office.message("shop-jobs-high")
    sqs = office.jobs.sqs.sync
    sqs.delete("shop-jobs-high", [sqs.receive("shop-jobs-high", limit=1, wait_s=0)[0].receipt])
    assert sqs.send("shop-jobs-high-dlq", [letter]) == []
    office.again(job.id)
    envelope = parse(office.message("shop-jobs-high").body)
    assert (str(envelope.parent), envelope.tenant) == (job.id, Tenant(org="org-1"))
    [message] = office.jobs.sqs.messages("shop-jobs-high-dlq")
    with pytest.raises(JobNotEnded):
        office.again(message.message_id)


def test_a_job_of_a_type_that_the_app_has_no_more_does_not_run_again(office: Office) -> None:
    items = Story(job_type="gone").run(1, "dead", attempt=1).items
    office.jobs.table.sync.put(items)
    with pytest.raises(UnknownJobType, match="no job type 'gone'"):
        office.again(JOB)


# --- cancel --------------------------------------------------------------------------------------


def test_jobs_that_have_not_ended_are_cancelled_by_a_filter() -> None:
    app = App("shop")

    @app.job("send", retry=Retry(max_attempts=2, backoff=Backoff.fixed(600)))
    def send(payload: dict[str, str]) -> None:
        if payload["to"] != "nobody":
            raise ConnectionError("refused")

    jobs = Harness(app)
    waiting = jobs.client.submit(send, {"to": "nobody"})
    retrying = [jobs.client.submit(send, {"to": "a"}, tenant=name) for name in ("x", "x", "y")]
    with pytest.raises(DrainUnfinished):
        jobs.drain(max_runs=4)
    assert waiting.state() is JobState.COMPLETED

    wanted = JobFilter(tenants=("x",))
    planned = jobs.client.jobs.cancel(wanted, dry_run=True)
    assert {each.id for each in planned.jobs} == {each.id for each in retrying[:2]}
    assert (planned.complete, retrying[0].history().cancel_requested_at) == (True, None)
    assert not jobs.client.jobs.cancel(JobFilter(), dry_run=True, most=2).complete

    among = [retrying[0].id, retrying[2].id]
    some = jobs.client.jobs.cancel(wanted, dry_run=True, among=among)
    assert ([each.id for each in some.jobs], some.complete) == ([retrying[0].id], True)
    assert jobs.client.jobs.cancel(wanted, among=()).jobs == []
    with pytest.raises(ValueError, match="not a job id"):
        jobs.client.jobs.cancel(wanted, among=["x"])

    jobs.client.jobs.cancel(wanted, reason="a mistake")
    jobs.drain()
    states = [each.state() for each in retrying]
    assert states == [JobState.CANCELLED, JobState.CANCELLED, JobState.DEAD]
    assert retrying[0].history().cancel_reason == "a mistake"
    assert jobs.client.jobs.cancel(wanted).jobs == []
