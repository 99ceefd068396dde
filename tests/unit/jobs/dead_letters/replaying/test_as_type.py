"""Replays of dead letters as another job type."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import (
    App,
    Client,
    DeadLetterFilter,
    Encryption,
    JobFilter,
    JobState,
    Priority,
    Retry,
    Signing,
)
from headgate.errors import ConfigurationError, SettingsInvalid
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.dead_letters.replaying.options import (
    ReplayOptions,
    read_options,
    stored_options,
)
from headgate.testing import Harness, MemoryBackend

ALL = DeadLetterFilter()
MAILS = "shop-mails-normal"


class Mail(BaseModel):
    to: list[str]
    subject: str = "-"


class Office:
    """An app in which `send-email` fails, and `send-mail` takes its place."""

    def __init__(self, upgrade: Any = None, **options: Any) -> None:
        self.app = app = App("shop", priorities="all", **options)
        self.sent: list[Mail] = []

        @app.job("send-email", retry=Retry(max_attempts=1))
        def email(payload: dict[str, str]) -> None:
            raise TimeoutError(payload)

        mails = app.queue("mails", priorities=[Priority.NORMAL])

        @mails.job("send-mail", schema=3, upgrade_from={"send-email": upgrade or from_email})
        def mail(payload: Mail) -> None:
            self.sent.append(payload)

        self.email = email
        self.jobs = Harness(app)

    def die(self, payload: dict[str, str], **options: Any) -> str:
        job = self.jobs.client.submit(self.email, payload, **options)
        self.jobs.drain()
        self.jobs.clock.advance(1)
        return job.id


def from_email(payload: Any) -> Any:
    return {"to": [payload.pop("address")], **payload}


@pytest.mark.parametrize(
    "options",
    [{}, {"encryption": Encryption()}, {"signing": Signing()}, {"max_message_bytes": 1_024}],
    ids=["plain", "sealed", "signed", "in the bucket"],
)
def test_a_letter_is_replayed_as_another_type_with_its_payload_upgraded(
    options: dict[str, Any],
) -> None:
    office = Office(**options)
    address = "ada" * 500
    job_id = office.die({"address": address})
    report = office.jobs.client.dead_letters.replay(ALL, as_type="send-mail")
    assert (report.sent, report.refused) == (1, 0)
    [message] = office.jobs.sqs.messages(MAILS)
    body = json.loads(message.body)
    assert (body["id"], body["type"], body["queue"]) == (job_id, "send-mail", "mails")
    assert (body["schema"], message.attributes["JobType"]) == (3, "send-mail")
    office.jobs.drain()
    assert office.sent == [Mail(to=[address])]
    assert office.jobs.dead_letters() == []


def test_fields_are_set_after_the_upgrade() -> None:
    office = Office()
    office.die({"address": "ada"})
    settings: dict[str, Any] = {"as_type": "send-mail", "set": {"subject": "late"}}
    office.jobs.client.dead_letters.replay(ALL, **settings)
    office.jobs.drain()
    assert office.sent == [Mail(to=["ada"], subject="late")]


def test_a_dry_run_lists_what_would_fail_and_a_replay_leaves_it() -> None:
    office = Office()
    office.die({"address": "ada"})
    office.die({"secret": "4111"})
    office.die({"address": "bob", "subject": ""}, priority=Priority.LOW)
    letters = office.jobs.client.dead_letters
    for report in (
        letters.replay(ALL, dry_run=True, as_type="send-mail"),
        letters.replay(ALL, as_type="send-mail"),
    ):
        assert (report.sent, report.refused) == (1, 2)
        why = "; ".join(each.why for each in report.left)
        assert "can't be upgraded to 'send-mail': its upgrade raised KeyError" in why
        assert "'low'" in why
        assert "4111" not in why
    assert len(office.jobs.dead_letters()) == 2


def test_a_payload_that_the_new_model_refuses_stays_where_it_is() -> None:
    office = Office(lambda payload: {"to": payload["address"]})
    office.die({"address": "ada"})
    report = office.jobs.client.dead_letters.replay(ALL, as_type="send-mail")
    assert (report.sent, report.refused) == (0, 1)
    assert "send-mail" in report.left[0].why


def test_letters_of_a_type_that_the_app_no_longer_has_are_replayed_as_another() -> None:
    before = Office()
    before.die({"address": "ada"})
    [letter] = before.jobs.dead_letters()
    after = App("shop")
    taken: list[Mail] = []

    @after.job("send-mail", upgrade_from={"send-email": from_email})
    def mail(payload: Mail) -> None:
        taken.append(payload)

    jobs = Harness(after)
    copy = OutgoingMessage(body=letter.body, attributes=letter.attributes)
    assert jobs.sqs.sync.send("shop-jobs-normal-dlq", [copy]) == []
    jobs.clock.advance(3_600)
    assert jobs.client.dead_letters.replay(ALL, as_type="send-mail").sent == 1
    jobs.drain()
    assert taken == [Mail(to=["ada"])]


@pytest.mark.parametrize("ends", [True, False], ids=["run", "waiting"])
def test_a_job_that_was_replayed_as_another_type_has_one_history(ends: bool) -> None:
    office = Office()
    job_id = office.die({"address": "ada"})
    client = office.jobs.client
    assert client.dead_letters.replay(ALL, as_type="send-mail").sent == 1
    if ends:
        office.jobs.drain()
    whats = ["failed", "dead", "replayed", *(["completed"] if ends else [])]
    state = JobState.COMPLETED if ends else JobState.WAITING
    types = office.app.types
    for handle in (
        client.handle(job_id),
        client.handle(job_id, types["send-email"]),
        client.handle(job_id, types["send-mail"]),
    ):
        record = handle.history()
        assert (record.type, record.state, record.other_types) == ("send-mail", state, ())
        assert [each.what for each in record.timeline] == whats
    if ends:
        assert client.handle(job_id).result() is None
    listed = client.jobs.list().jobs
    assert [(each.type, each.state) for each in listed] == [("send-mail", state)]
    assert client.jobs.list(JobFilter(types=("send-email",))).jobs == []
    counted = client.jobs.count().counts
    assert [(each.type, each.state, each.count) for each in counted] == [("send-mail", state, 1)]


def test_the_history_of_a_type_that_the_app_no_longer_has_goes_on_as_another() -> None:
    office = Office()
    job_id = office.die({"address": "ada"})
    after = App("shop")
    after.define("send-mail", Mail, schema=3, upgrade_from={"send-email": from_email})
    backend = MemoryBackend(after, clock=office.jobs.clock)
    backend.sqs, backend.table = office.jobs.sqs, office.jobs.table
    with Client(after, backend=backend) as client:
        assert client.handle(job_id).state() is JobState.DEAD
        assert client.dead_letters.replay(ALL, as_type="send-mail").sent == 1
        assert client.handle(job_id).state() is JobState.WAITING
        [listed] = client.jobs.list().jobs
        assert (listed.type, listed.state) == ("send-mail", JobState.WAITING)


def test_a_type_that_the_app_does_not_have_is_refused_before_anything_is_begun() -> None:
    office = Office()
    letters = office.jobs.client.dead_letters
    for dry_run in (True, False):
        with pytest.raises(SettingsInvalid, match=r"no type 'send-mial'.*send-mail"):
            letters.replay(ALL, dry_run=dry_run, as_type="send-mial")
    with pytest.raises(SettingsInvalid, match="as_type is the name"):
        letters.replay(ALL, as_type="")
    assert letters.replays() == []


def test_the_table_keeps_the_type_and_no_function() -> None:
    options = ReplayOptions(as_type="send-mail")
    stored = stored_options(options)
    assert stored["as_type"] == "send-mail"
    assert read_options(stored) == options
    assert read_options(stored | {"as_type": 7}) is None


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"mail": from_email}, "is about other types' payloads"),
        ({"send-email": "from_email"}, "must be a plain function"),
        ([from_email], "must map names of other types"),
    ],
)
def test_upgrades_from_other_types_are_checked_when_they_are_declared(
    given: Any, complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        App("shop").define("mail", Mail, upgrade_from=given)
