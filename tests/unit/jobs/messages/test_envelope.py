from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import Priority, Tenant
from headgate.jobs.errors import MessageSchemaNewer, MessageUnreadable
from headgate.jobs.messages.envelope import Envelope, Options, Sealed, parse
from headgate.jobs.messages.job_ids import new_job_id

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
JOB_ID = UUID("019b7c5e-1f88-7000-8000-000000000001")

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def envelope(**fields: Any) -> Envelope:
    required = {"v": 1, "id": JOB_ID, "type": "send-email", "payload": {}, "queue": "jobs"}
    return Envelope(**{**required, "priority": "high", "submitted_at": NOW, **fields})


# --- bodies --------------------------------------------------------------------------------------


@given(payload=json_values)
def test_any_json_payload_survives_the_trip(payload: Any) -> None:
    sent = envelope(payload=payload)
    assert parse(sent.to_body()) == sent


def test_every_field_survives_the_trip() -> None:
    sent = envelope(
        schema=3,
        not_before=NOW + timedelta(minutes=5),
        expires_at=NOW + timedelta(hours=1),
        tenant=Tenant(org="org-1", workspace="büro"),
        trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        source="schedule:daily",
        parent=new_job_id(NOW),
        attempts_used=2,
        options=Options(attempts=7, timeout_s=1.5),
    )
    assert set(json.loads(sent.to_body())) == {
        field.alias or name for name, field in Envelope.model_fields.items()
    } - {"payload_ref", "sealed"}
    assert parse(sent.to_body()) == sent


def test_a_sealed_payload_stands_in_place_of_an_open_one() -> None:
    sealed = Sealed(key="alias/a", data_key="AAAA", of="schedule:daily", encoding="gzip", text="BB")
    sent = envelope(payload={"to": "open"}, sealed=sealed)
    assert "open" not in sent.to_body()
    assert parse(sent.to_body()) == sent.model_copy(update={"payload": None})


def test_the_body_omits_absent_and_default_fields_but_keeps_null_payloads() -> None:
    body = json.loads(envelope(payload=None, tenant=Tenant(org="o")).to_body())
    assert body == {
        "v": 1,
        "id": str(JOB_ID),
        "type": "send-email",
        "payload": None,
        "queue": "jobs",
        "priority": "high",
        "submitted_at": "2026-01-02T03:04:05Z",
        "tenant": {"org": "o"},
    }


def test_fields_that_a_reader_does_not_know_are_ignored() -> None:
    body = {**json.loads(envelope().to_body()), "new": 1, "options": {"attempts": 2, "new": 1}}
    assert parse(json.dumps(body)) == envelope(options=Options(attempts=2))


# --- invalid bodies ------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["", "hello", "{", '{"v": 1', '{"a": "\\ud800"}', "[" * 10_000])
def test_a_body_that_is_not_json_is_unreadable(body: str) -> None:
    with pytest.raises(MessageUnreadable, match="the message body is not JSON"):
        parse(body)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in json.loads(envelope().to_body()).items() if key != name}


def changed(**fields: Any) -> dict[str, Any]:
    return {**json.loads(envelope().to_body()), **fields}


MALFORMED = [
    *((without(name), f"{name}: Field required") for name in ("v", "id", "type", "payload")),
    *((without(name), f"{name}: Field required") for name in ("queue", "priority", "submitted_at")),
    (changed(v=0), "v: Input should be 1"),
    (changed(v="1"), "v: Input should be 1"),
    (changed(id="1"), "id: Input should be a valid UUID"),
    (changed(type=""), "type: String should have at least 1 character"),
    (changed(type="t" * 129), "type: String should have at most 128 characters"),
    (changed(schema=0), "schema: Input should be greater than or equal to 1"),
    (changed(queue=5), "queue: Input should be a valid string"),
    (changed(priority="urgent"), "priority: Input should be 'critical', 'high', 'normal' or 'low'"),
    (changed(submitted_at="soon"), "submitted_at: Input should be a valid datetime"),
    (changed(submitted_at="2026-01-01T00:00:00"), "submitted_at: .*should have timezone info"),
    (changed(tenant={}), "tenant.org: Field required"),
    (changed(tenant="org"), "tenant: Input should be"),
    (changed(attempts_used=-1), "attempts_used: Input should be greater than or equal to 0"),
    (changed(options={"attempts": 0}), "options.attempts: .* greater than or equal to 1"),
    (changed(options={"attempts": 1001}), "options.attempts: .* less than or equal to 1000"),
    (changed(options={"timeout_s": 0}), "options.timeout_s: Input should be greater than 0"),
    ([], "body: Input should be"),
    ("text", "body: Input should be"),
    (None, "body: Input should be"),
]


@pytest.mark.parametrize(("value", "fault"), MALFORMED)
def test_a_malformed_message_is_unreadable_and_the_field_is_named(value: Any, fault: str) -> None:
    with pytest.raises(MessageUnreadable, match=f"the body is not a Headgate message: {fault}"):
        parse(json.dumps(value))


def test_the_values_of_a_malformed_message_stay_out_of_the_error() -> None:
    body = json.dumps(changed(id="the-secret", priority="the-secret", options="the-secret"))
    with pytest.raises(MessageUnreadable) as raised:
        parse(body)
    assert "the-secret" not in str(raised.value)


def test_a_later_version_is_told_from_a_malformed_message() -> None:
    with pytest.raises(MessageSchemaNewer, match="format version 2; this worker reads up to 1"):
        parse('{"v": 2, "anything": "goes"}')


def test_a_body_has_no_blanks_between_its_parts() -> None:
    assert not re.search(r"\s", envelope(payload={"a": [1, 2]}).to_body())


def test_priorities_are_read_as_priorities() -> None:
    assert parse(envelope().to_body()).priority is Priority.HIGH
