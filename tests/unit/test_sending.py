"""The bridge's sending: what one invocation has sent another doesn't send again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.envelope import VERSION, Envelope, new_job_id
from jobs.errors import ServiceUnavailable
from jobs.messages import message_of
from jobs.ports import OutgoingMessage
from jobs.testing import MemorySqs, MemoryTable, VirtualClock
from jobs.topology import Priority
from lambdas.sending import KEEP, SentOnce

QUEUE = "shop-jobs-normal"


class Bench:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.sqs, self.table = MemorySqs(self.clock), MemoryTable(self.clock)
        self.sqs.create_queue(QUEUE)

    def send(self, *messages: OutgoingMessage) -> list[int]:
        """As an invocation does, in an execution environment of its own."""
        once = SentOnce(self.sqs.blocking, self.table.blocking, self.clock.now)
        return [failure.index for failure in once.send(QUEUE, messages)]

    def message(self) -> OutgoingMessage:
        envelope = Envelope(
            v=VERSION,
            id=new_job_id(self.clock.now()),
            type="report",
            payload={},
            queue="jobs",
            priority=Priority.NORMAL,
            submitted_at=self.clock.now(),
        )
        return message_of(envelope)

    @property
    def sent(self) -> int:
        return len(self.sqs.messages(QUEUE))


def test_a_job_that_has_been_sent_is_not_sent_again_by_a_later_invocation() -> None:
    bench = Bench()
    message = bench.message()
    for _ in range(3):
        assert bench.send(message) == []
        bench.clock.advance(timedelta(hours=15))
    assert bench.sent == 1
    assert bench.table.calls == ["replace"] * 4, "two for a job, and one for each repetition"
    assert timedelta(hours=30) < KEEP


def test_an_invocation_that_failed_is_made_up_for() -> None:
    bench = Bench()
    message = bench.message()
    bench.sqs.faults.raise_on("send", ServiceUnavailable("gone"))
    with pytest.raises(ServiceUnavailable):
        bench.send(message)
    bench.sqs.faults.fail_entries("send")
    assert bench.send(message) == [0]
    assert bench.sent == 0
    assert bench.send(message) == []
    assert bench.send(message) == []
    assert bench.sent == 1


def test_of_several_only_what_has_not_been_sent_is_sent_and_faults_keep_their_places() -> None:
    bench = Bench()
    messages = [bench.message() for _ in range(4)]
    bench.send(messages[1])
    bench.sqs.faults.fail_entries("send", indexes=[1])
    assert bench.send(*messages) == [2]
    assert bench.sent == 3
    assert bench.send(*messages) == []
    assert bench.sent == 4


@pytest.mark.parametrize("applied", [False, True])
def test_a_table_that_does_not_answer_keeps_no_job_back(applied: bool) -> None:
    bench = Bench()
    fault = ServiceUnavailable("away")
    bench.table.faults.raise_on("replace", fault, times=2, applied=applied)
    assert bench.send(bench.message()) == []
    assert bench.sent == 1
