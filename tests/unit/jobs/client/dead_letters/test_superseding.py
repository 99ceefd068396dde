"""``client.dead_letters.restore``: jobs that have gone on since their copies were made are left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headgate import App, DeadLetterFilter, Discard, DoNotRetry, Encryption
from headgate.errors import ServiceUnavailable
from headgate.jobs.client.dead_letters.copying import LettersRestored
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.records.items import partition
from headgate.jobs.testing.next_message import DrainUnfinished
from headgate.testing import Harness
from tests.support.clients import Kind

ALL = DeadLetterFilter()


class Mails:
    """An app with a letter of one job, and a copy of it, as a sweep leaves both."""

    def __init__(self, **options: Any) -> None:
        self.fails: Callable[[], None] = _die
        self.runs = 0
        app = App("shop", **options)

        @app.job("send")
        def send(_text: str) -> None:
            self.runs += 1
            self.fails()

        @app.job("send-anew")
        def anew(_text: str) -> None:
            self.runs += 1

        self.jobs = Harness(app)
        self.letters = self.jobs.client.dead_letters
        self.job = self.jobs.client.submit(send, "hello", tenant="acme")
        self.jobs.drain()
        self.copy()
        self.runs = 0

    def copy(self) -> None:
        """Make a copy of each letter, and leave the letters."""
        assert self.letters.purge(ALL).copied == 1
        assert self.letters.restore(ALL, include_superseded=True).restored > 0
        self.jobs.clock.advance(60)

    def replay(self, fails: Callable[[], None], **options: Any) -> None:
        """Send the job back; it then ends as ``fails`` says."""
        self.fails = fails
        assert self.letters.replay(ALL, **options).sent == 1

    def redrive(self) -> None:
        """Send the job back as an administrator's redrive does, of which nothing is recorded."""
        queues = self.jobs.sqs.sync
        [letter] = queues.receive("shop-jobs-normal-dlq", limit=10, wait_s=0, visibility_s=60)
        sent = OutgoingMessage(body=letter.body, attributes={})
        assert queues.send("shop-jobs-normal", [sent]) == []
        assert queues.delete("shop-jobs-normal-dlq", [letter.receipt]) == []

    def restore(self, kind: Kind, **options: Any) -> LettersRestored:
        """Restore all with either client."""
        if kind == "Client":
            return self.letters.restore(ALL, **options)
        return asyncio.run(self.jobs.async_client.dead_letters.restore(ALL, **options))


def _die() -> None:
    raise DoNotRetry("the mail server is down")


def _discard() -> None:
    raise Discard("there is no such address any more")


def _complete() -> None: ...


@pytest.mark.parametrize("ends", [_complete, _discard])
@pytest.mark.parametrize("records", ["failures", "outcomes", "full"])
def test_a_letter_whose_job_has_ended_well_since_is_left_and_named(
    kind: Kind, records: RecordsLevel, ends: Callable[[], None]
) -> None:
    mails = Mails(records=records)
    mails.replay(ends)
    mails.jobs.drain()

    outcome = mails.restore(kind)

    assert (outcome.restored, outcome.superseded, outcome.failures) == (0, 1, [])
    assert outcome.superseded_jobs == [mails.job.id]
    assert (mails.runs, mails.letters.list().letters) == (1, [])


def test_they_are_restored_where_that_is_asked_for(kind: Kind) -> None:
    mails = Mails()
    mails.replay(_complete)
    mails.jobs.drain()

    outcome = mails.restore(kind, include_superseded=True)

    assert (outcome.restored, outcome.superseded, outcome.superseded_jobs) == (1, 0, [])
    mails.jobs.clock.advance(1)
    assert mails.letters.replay(ALL).sent == 1


def test_a_job_that_was_replayed_and_still_waits_is_left() -> None:
    mails = Mails()
    mails.replay(_complete)

    assert mails.letters.restore(ALL).superseded == 1

    mails.jobs.drain()
    assert mails.runs == 1


def test_of_a_job_that_died_again_only_the_latest_letter_is_restored() -> None:
    mails = Mails()
    mails.replay(_die)
    mails.jobs.drain()
    assert mails.letters.purge(ALL).copied == 1

    outcome = mails.letters.restore(ALL)

    assert (outcome.restored, outcome.superseded) == (1, 1)
    [letter] = mails.letters.list().letters
    assert letter.replays == 1


def test_a_job_that_aws_has_redriven_is_left_once_it_has_completed() -> None:
    mails = Mails()
    mails.redrive()
    mails.fails = _complete
    mails.jobs.drain()

    assert mails.letters.restore(ALL).superseded == 1


def test_a_job_that_aws_has_redriven_is_left_while_it_is_retried() -> None:
    mails = Mails()
    mails.redrive()
    mails.fails = _time_out
    with pytest.raises(DrainUnfinished):
        mails.jobs.drain(max_runs=1)

    assert mails.letters.restore(ALL).superseded == 1


def _time_out() -> None:
    raise TimeoutError


def test_a_job_that_was_replayed_as_another_type_is_left() -> None:
    mails = Mails()
    mails.replay(_complete, as_type="send-anew")
    mails.jobs.drain()

    assert mails.letters.restore(ALL).superseded_jobs == [mails.job.id]


def test_a_job_that_was_cancelled_since_is_left() -> None:
    mails = Mails()
    mails.replay(_complete)
    mails.job.cancel()
    mails.jobs.drain()

    assert (mails.runs, mails.letters.restore(ALL).superseded) == (0, 1)


def test_a_sealed_letter_whose_job_has_completed_is_left() -> None:
    mails = Mails(encryption=Encryption())
    mails.replay(_complete)
    mails.jobs.drain()

    assert mails.letters.restore(ALL).superseded == 1


def test_without_records_every_letter_is_restored() -> None:
    mails = Mails(records="off")
    mails.replay(_complete)
    mails.jobs.drain()

    outcome = mails.letters.restore(ALL)

    assert (outcome.restored, outcome.superseded) == (1, 0)


def test_another_tenants_job_under_the_same_id_tells_nothing() -> None:
    mails = Mails()
    mails.replay(_complete)
    mails.jobs.drain()
    stored = mails.jobs.table.sync
    mine = stored.query(partition(mails.job.id))
    stored.delete([(each.pk, each.sk) for each in mine])
    stored.delete([(each.pk, each.sk) for each in stored.query(f"asked#{mails.job.id}")])
    stored.put([replace(each, data={**each.data, "tenant": {"org": "other"}}) for each in mine])

    assert mails.letters.restore(ALL).restored == 1


def test_nothing_is_restored_while_the_table_can_not_be_asked() -> None:
    mails = Mails()
    mails.jobs.table.faults.raise_on("query", ServiceUnavailable("the table is down"))

    with pytest.raises(ServiceUnavailable):
        mails.letters.restore(ALL)

    assert len(mails.letters.list().letters) == 1
