"""A sweep of the dead letters: new ones are reported and counted, expiring ones are copied."""

from __future__ import annotations

import gzip
import json
import logging
import re
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from headgate import App, Priority
from headgate.jobs.core.naming import DEAD_LETTERS
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.dead_letters.copies import copy_of
from headgate.jobs.dead_letters.reading import (
    NOT_SUBMITTED,
    REDRIVEN,
    content_of,
    read_letter,
)
from headgate.jobs.deployment.sweep_plan import EVERY, SUMMARY_EVERY
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.execution.outcome import Reason
from headgate.jobs.messages.envelope import PayloadRef
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.messages.large_payloads import payload_key
from headgate.jobs.messages.outgoing import message_of
from headgate.lambdas.sweep import sweeper
from headgate.lambdas.sweep.sweeper import FAILED_COPIES, LIMIT, SAVED_BEFORE
from tests.support.sweep_bench import NOON, SECRET, Order, SweepBench

PAGE = Path(__file__).parents[4] / "docs" / "dead-letters.md"
DOWN = ServiceUnavailable("it is down")


@pytest.fixture
def bench() -> SweepBench:
    return SweepBench()


# --- telling -------------------------------------------------------------------------------------


def test_what_is_new_is_told_once_and_stays_where_it_is(bench: SweepBench) -> None:
    job_id = bench.die("send-email")
    before = bench.everything()
    for _ in range(3):
        bench.swept()
        bench.clock.advance(EVERY)
    [(subject, text)] = bench.tickets.published
    assert subject == "[shop-test] 1 new dead letter: send-email"
    for part in ("attempts-exhausted, CardError", bench.parking("send-email").name, job_id):
        assert part in text
    assert bench.everything() == before
    assert bench.visible() == 1


def test_critical_types_are_reported_each_sweep_and_others_hourly(
    bench: SweepBench,
) -> None:
    rounds = 2 * int(SUMMARY_EVERY / EVERY)
    for _ in range(rounds):
        bench.die("capture")
        bench.die("send-email")
        bench.swept()
        bench.clock.advance(EVERY)
    pages = [subject for subject, _ in bench.topic.published]
    assert pages == ["[shop-test] 1 new critical dead letter: capture"] * rounds
    assert [subject for subject, _ in bench.tickets.published] == [
        "[shop-test] 1 new dead letter: send-email",
        f"[shop-test] {rounds // 2} new dead letters: send-email",
    ]


def test_what_kills_workers_is_critical_whatever_its_type(bench: SweepBench) -> None:
    bench.crash("send-email")
    bench.swept()
    [(subject, text)] = bench.topic.published
    assert subject == "[shop-test] 1 new critical dead letter: send-email"
    assert "quarantined" in text
    assert "killed the processes" in text


def test_what_sqs_moved_by_itself_is_told_with_its_type(bench: SweepBench) -> None:
    envelope = bench.envelope("send-email")
    queue = bench.app.topology.queue("jobs", Priority.NORMAL)
    bench.send(queue.name, message_of(envelope))
    for _ in range(queue.max_receive_count + 1):
        bench.sqs.sync.receive(queue.name, limit=1, wait_s=0, visibility_s=0)
    bench.swept()
    assert bench.counted == {("jobs", "send-email", "redriven"): 1}
    assert "send-email: redriven" in bench.texts()
    assert str(envelope.id) in bench.texts()


def test_a_firing_that_became_no_job_is_told(bench: SweepBench) -> None:
    record = {
        "requestPayload": {"type": "send-email", "job_id": "0190"},
        "responsePayload": {"errorType": "QueueMissing", "errorMessage": SECRET},
    }
    queue = bench.app.topology.failed_firings_name
    bench.send(queue, OutgoingMessage(body=json.dumps(record)))
    bench.swept()
    assert bench.counted == {("schedules", "send-email", "not-submitted"): 1}
    assert "send-email: not-submitted, QueueMissing" in bench.texts()


def test_an_alert_names_the_commands_for_what_it_is_about(bench: SweepBench) -> None:
    bench.die("capture")
    bench.crash("send-email")
    bench.swept()
    of_both = f"{bench.parking('capture').name} --queue {bench.app.topology.quarantine_name}"
    text = bench.texts()
    assert (
        f"`headgate dead-letters list --queue {of_both} --type capture --type send-email`" in text
    )
    assert f"replay --queue {bench.parking('capture').name} --type capture --dry-run`" in text
    assert f"replay --queue {bench.app.topology.quarantine_name} --type send-email`" in text


def test_an_alert_leads_to_the_console_for_each_kind(bench: SweepBench) -> None:
    bench.die("capture")
    bench.swept()
    assert "https://" not in bench.texts()
    bench.console = "https://jobs.shop.example"
    bench.die("capture", error="$(reboot)")
    bench.swept()
    [link] = re.findall(r"https://\S+", bench.texts())
    place = urlsplit(link)
    assert (place.netloc, place.path) == ("jobs.shop.example", "/dead")
    assert dict(parse_qsl(place.query)) == {
        "type": "capture",
        "reason": "attempts-exhausted",
        "queue": bench.parking("capture").name,
    }


def test_a_command_selects_no_type_where_one_is_unknown(bench: SweepBench) -> None:
    name = bench.parking("send-email").name
    bench.send(name, OutgoingMessage(body="{}", attributes={"JobType": "$(reboot)"}))
    bench.swept()
    assert f"`headgate dead-letters list --queue {name}` lists them" in bench.texts()


def test_no_alert_and_no_log_has_a_payload_or_an_errors_message(
    bench: SweepBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bench.die("capture")
    bench.die("send-email")
    bench.send(bench.parking("send-email").name, OutgoingMessage(body=f"not JSON {SECRET}"))
    bench.swept()
    assert SECRET not in bench.texts()
    logged = [json.dumps(vars(record), default=str) for record in caplog.records]
    assert len(logged) == 3
    assert not [line for line in logged if SECRET in line]


@pytest.mark.parametrize(
    "invented",
    ["über\nSubject: x", "pay-at-https://evil.example", "evil.example", "Send-Email", "x" * 200],
)
def test_what_anybody_put_there_is_told_as_unknown(bench: SweepBench, invented: str) -> None:
    name = bench.parking("send-email").name
    said = dict.fromkeys(("JobType", "Reason", "JobId"), invented) | {"ErrorType": "evil.example"}
    bench.send(name, OutgoingMessage(body="[]", attributes=said))
    bench.swept()
    assert bench.counted == {("jobs", "unknown", "unknown"): 1}
    assert "1 x unknown: unknown, unknown" in bench.texts()
    assert invented not in bench.texts()
    assert "evil.example" not in bench.texts()


def test_a_thousand_invented_types_are_one_metric_and_one_kind(bench: SweepBench) -> None:
    name = bench.parking("send-email").name
    for number in range(1_000):
        said = {"JobType": f"type-{number}", "Reason": f"reason-{number}"}
        bench.send(name, OutgoingMessage(body="[]", attributes=said))
    bench.swept()
    assert bench.counted == {("jobs", "unknown", "unknown"): 1_000}
    [(subject, text)] = bench.tickets.published
    assert subject == "[shop-test] 1000 new dead letters: unknown"
    assert "of other kinds" not in text


def test_a_log_line_has_only_names_that_are_ours(
    bench: SweepBench, caplog: pytest.LogCaptureFixture
) -> None:
    said = dict.fromkeys(("JobType", "Reason", "JobId", "ErrorType"), "\x9b2J\u202e")
    bench.send(bench.parking("send-email").name, OutgoingMessage(body="[]", attributes=said))
    bench.swept()
    [line] = [vars(record) for record in caplog.records if record.getMessage() == "dead letter"]
    assert {line[name] for name in ("job_type", "reason", "error_type")} == {"unknown"}
    assert "job_id" not in line


@pytest.mark.parametrize("error", ["CardError", "Runtime.ImportModuleError", "Sandbox.Timedout"])
def test_the_names_of_errors_are_told(bench: SweepBench, error: str) -> None:
    bench.die("send-email", error=error)
    bench.swept()
    assert f"1 x send-email: attempts-exhausted, {error}\n" in bench.texts()


def test_a_flood_is_one_message_that_sns_takes(bench: SweepBench) -> None:
    for number in range(150):
        bench.die("send-email", error=f"Error{number:03}")
    bench.swept()
    [(subject, text)] = bench.tickets.published
    assert subject.startswith("[shop-test] 150 new dead letters")
    assert text.count(" x send-email") == 20
    assert "130 of other kinds." in text


def test_a_queue_that_holds_more_than_a_sweep_looks_at_says_so(
    bench: SweepBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "LIMIT", 20)
    for _ in range(25):
        bench.die("send-email")
    assert bench.swept().looked_at == 20
    assert "About 5 more messages" in bench.texts()
    assert bench.visible() == 25
    assert LIMIT > 20


def test_a_message_that_sqs_hands_out_twice_is_one(
    bench: SweepBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "HOLD", timedelta(0))
    monkeypatch.setattr(sweeper, "LIMIT", 5)
    bench.die("send-email")
    assert bench.swept().looked_at == 1
    assert "1 new dead letter:" in bench.texts()


def test_a_fifo_queue_is_looked_into_and_given_back_in_order(bench: SweepBench) -> None:
    ids = [bench.die("book") for _ in range(3)]
    assert bench.swept().new == {("ledger", "book", "attempts-exhausted"): 3}
    name = bench.parking("book").name
    found = bench.sqs.sync.receive(name, limit=10, wait_s=0)
    assert [message.attributes["JobId"] for message in found] == ids


# --- saving --------------------------------------------------------------------------------------


def test_what_sqs_is_about_to_delete_is_copied_once_with_all_it_says(
    bench: SweepBench,
) -> None:
    job_id = bench.die("send-email")
    queue = bench.parking("send-email")
    bench.clock.advance(queue.retention - SAVED_BEFORE)
    assert bench.swept().saved == 0
    bench.clock.advance(EVERY)
    assert bench.swept().saved == 1
    assert bench.swept().saved == 0

    [stored] = bench.sqs.messages(queue.name)
    key = f"{DEAD_LETTERS}{queue.name}/2026-11-21/{stored.message_id}.json.gz"
    assert list(bench.store.objects) == [key]
    copy = json.loads(gzip.decompress(bench.store.objects[key]))
    assert copy["body"] == stored.body
    assert copy["attributes"] == dict(stored.attributes)
    assert copy["attributes"]["JobId"] == job_id
    assert copy["sent_at"] == NOON.isoformat()


def test_a_message_always_makes_the_same_copy(bench: SweepBench) -> None:
    bench.die("send-email")
    queue = bench.parking("send-email")
    copies = set()
    for _ in range(2):
        [message] = bench.sqs.sync.receive(queue.name, limit=1, wait_s=0, visibility_s=0)
        copies.add(copy_of(read_letter(message, queue), content_of(message)))
        bench.clock.advance(EVERY)
    assert len(copies) == 1


def test_a_payload_that_is_in_the_bucket_is_copied_before_it_expires_too(bench: SweepBench) -> None:
    key = payload_key(job_id := new_job_id(NOON))
    bench.store.objects[key] = b"packed"
    ref = PayloadRef(key=key, sha256="0" * 64, size=6, encoding="gzip")
    bench.die("send-email", id=job_id, payload=None, payload_ref=ref)
    queue = bench.parking("send-email")
    bench.clock.advance(queue.retention - SAVED_BEFORE + EVERY)
    bench.swept()
    [copy] = [
        content for key, content in bench.store.objects.items() if key.endswith(".payload.gz")
    ]
    assert copy == b"packed"


@pytest.mark.parametrize(
    ("key", "content"),
    [
        pytest.param("", None, id="gone"),
        pytest.param("", b"y" * 2_000, id="larger than it says"),
        pytest.param("payloads/theirs", b"packed", id="another job's"),
        pytest.param("payloads/results/theirs", b"packed", id="a result"),
        pytest.param("theirs/1", b"packed", id="not a payload"),
    ],
)
def test_a_message_whose_payload_cannot_be_had_is_copied_alone(
    bench: SweepBench, key: str, content: bytes | None
) -> None:
    key = key or payload_key(new_job_id(NOON))
    job_id = key.rpartition("/")[2] if len(key) > 40 else new_job_id(NOON)
    if content is not None:
        bench.store.objects[key] = content
    ref = PayloadRef(key=key, sha256="0" * 64, size=6, encoding="gzip")
    bench.die("send-email", id=job_id, payload=None, payload_ref=ref)
    bench.clock.advance(bench.parking("send-email").retention - SAVED_BEFORE + EVERY)
    assert bench.swept().saved == 1
    [copy] = [each for each in bench.store.objects if each.startswith(DEAD_LETTERS)]
    assert copy.endswith(".json.gz")


def test_a_message_that_cannot_be_copied_keeps_no_other_from_it(
    bench: SweepBench,
) -> None:
    for _ in range(3):
        bench.die("send-email")
    bench.clock.advance(bench.parking("send-email").retention - SAVED_BEFORE + EVERY)
    bench.store.fail("put", DOWN)
    with pytest.raises(ServiceUnavailable):
        bench.sweep()
    assert len(bench.store.objects) == 2


def test_while_s3_is_down_the_rest_is_done_and_the_next_sweep_saves(bench: SweepBench) -> None:
    for _ in range(3):
        bench.die("send-email")
    bench.clock.advance(bench.parking("send-email").retention - SAVED_BEFORE + EVERY)
    bench.store.fail("put", DOWN, times=FAILED_COPIES)
    with pytest.raises(ServiceUnavailable):
        bench.sweep()
    assert len(bench.tickets.published) == 1
    assert len(bench.store.calls) == FAILED_COPIES, "not one for each"
    assert bench.swept().saved == 3


# --- the documents -------------------------------------------------------------------------------


def test_the_alert_in_the_documents_is_one_that_is_sent() -> None:
    app = App("shop", stage="prod")
    app.define("capture-payment", Order, priority=Priority.CRITICAL, alert_at_once=True)
    bench = SweepBench(app)
    for number in range(5):
        bench.die("capture-payment", id=f"00000000-0000-7000-8000-{number:012}")
    bench.swept()
    [(subject, text)] = bench.topic.published
    assert f"```text\nSubject: {subject}\n\n{text}\n```" in PAGE.read_text()


def test_every_reason_is_in_the_documents() -> None:
    page = PAGE.read_text()
    for reason in (*Reason, "quarantined", REDRIVEN, NOT_SUBMITTED):
        assert f"`{reason}`" in page
