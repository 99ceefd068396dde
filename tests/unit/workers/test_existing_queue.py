"""A queue that something else created: submitting, running, dead-lettering, long delays."""

from __future__ import annotations

from datetime import timedelta

from headgate import App, Existing, ExistingQueue, Lane, Priority, Retry
from headgate.jobs.core.events import JobCompleted, JobDeadLettered
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.testing import Harness
from tests.unit.workers.rig import Note, Rig, without_threads

pytestmark = without_threads

ORDERS = "arn:aws:sqs:eu-central-1:111122223333:orders"
DEAD = "orders-dead"


def shop() -> App:
    found = ExistingQueue(queue=ORDERS, dead_letters=DEAD)
    app = App("shop", existing=Existing(queues={"mail": {"normal": found}}))
    lane = Lane(visibility=40, start_within=60, share=0)
    mail = app.queue("mail", priorities=["normal"], lanes={Priority.NORMAL: lane})

    @mail.job("send-mail", retry=Retry(max_attempts=1))
    async def send(note: Note) -> None:
        if note.text == "bad":
            raise ValueError(note.text)

    return app


async def test_a_worker_runs_its_jobs_and_parks_those_it_gives_up_where_they_belong() -> None:
    rig = Rig(shop())
    await rig.submit(rig.app.types["send-mail"], "good", "bad")
    async with rig.working():
        await rig.happens(JobCompleted)
        await rig.happens(JobDeadLettered)
    assert len(rig.sqs.messages(DEAD)) == 1
    assert not rig.sqs.messages(ORDERS)


async def test_a_worker_asks_for_its_lane_s_visibility_with_each_receive() -> None:
    rig = Rig(shop())
    receive, asked = rig.wire.receive, set[int | None]()

    async def noted(
        queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]:
        asked.add(visibility_s)
        return await receive(queue, limit=limit, wait_s=wait_s, visibility_s=visibility_s)

    rig.wire.receive = noted  # type: ignore[method-assign]  # to see it
    await rig.submit(rig.app.types["send-mail"], "good")
    async with rig.working():
        await rig.happens(JobCompleted)
    assert asked == {40}


def test_a_long_delay_ends_in_the_existing_queue_through_the_bridge() -> None:
    jobs = Harness(app := shop())
    handle = jobs.client.submit(
        app.types["send-mail"], Note(text="later"), delay=timedelta(hours=2)
    )
    jobs.drain()
    assert not jobs.sqs.messages(ORDERS)
    jobs.clock.advance(timedelta(hours=2))
    jobs.drain()
    assert handle.state() == "completed"
