"""Payloads too large for a message are stored as objects, and read back unchanged or not at all."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import App
from headgate.jobs.errors import MessageUnreadable, PayloadLost, PayloadTooLarge
from headgate.jobs.messages.envelope import Envelope, PayloadRef, parse
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.messages.large_payloads import (
    LARGEST,
    check_reference,
    max_packed,
    parcel,
    parted,
    payload_key,
    unpacked,
)
from headgate.jobs.submission.prepare import Submission, prepare

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
APP = App("shop")
NOTE = APP.define("note", dict[str, Any])
JOB = UUID("019b7ca4-7a2e-7000-8000-000000000001")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def submission(payload: dict[str, Any]) -> Submission:
    return prepare(
        APP, APP.topology, NOTE, payload, {"tenant": "org-1"}, now=NOW, job_id=new_job_id(NOW)
    )


@given(value=json_values.filter(lambda value: value not in (float("inf"), float("-inf"))))
def test_whatever_json_holds_comes_back_from_its_object(value: Any) -> None:
    try:
        kept = parcel("payloads/1", value)
    except ValueError:
        return  # a lone surrogate or an infinity: no payload contains one
    if b"Infinity" in kept.text:
        return

    assert unpacked(kept.ref, kept.packed()) == json.loads(kept.text)


def test_the_same_payload_makes_the_same_object() -> None:
    first, again = parcel("a", {"x": 1}), parcel("a", {"x": 1})

    assert first.ref == again.ref
    assert first.packed() == again.packed()


def test_a_parted_message_is_the_same_but_for_its_payload() -> None:
    whole = submission({"text": "x" * 300_000})

    slim, kept = parted(whole.message)

    assert slim.size < 1_000
    assert slim.attributes == whole.message.attributes
    assert slim.group == whole.message.group == "org-1"
    read = parse(slim.body)
    assert read.payload_ref == kept.ref
    assert kept.ref.key == f"payloads/{whole.id}"
    body = json.loads(slim.body)
    before = json.loads(whole.message.body)
    assert body.keys() ^ before.keys() == {"payload", "payload_ref"}
    assert unpacked(kept.ref, kept.packed()) == whole.envelope.payload


def test_a_reader_that_knows_nothing_of_references_refuses_the_message() -> None:
    """An older worker's model had ``payload`` required and no ``payload_ref``."""
    slim, _ = parted(submission({"text": "x"}).message)
    body = json.loads(slim.body)
    del body["payload_ref"]  # equivalent to not reading it

    with pytest.raises(MessageUnreadable, match="payload: Field required"):
        parse(json.dumps(body))


def test_where_a_message_has_both_the_reference_counts() -> None:
    slim, kept = parted(submission({"text": "x"}).message)
    body = json.loads(slim.body) | {"payload": {"text": "other"}}

    read = parse(json.dumps(body))

    assert read.payload is None
    assert read.payload_ref == kept.ref


def _damaged(text: bytes) -> dict[str, bytes | None]:
    packed = gzip.compress(text, mtime=0)
    return {
        "gone": None,
        "empty": b"",
        "not gzip": text,
        "cut off": packed[:-1],
        "a bit flipped": packed[:20] + bytes([packed[20] ^ 1]) + packed[21:],
        "another text of the same length": gzip.compress(text.replace(b"y", b"z")),
        "a shorter text": gzip.compress(text[:-1]),
        "a longer text": gzip.compress(text + b" "),
        "a bomb": gzip.compress(b"y" * 10_000_000),
    }


@pytest.mark.parametrize("damage", _damaged(b"y" * 100))
def test_an_object_that_is_not_what_was_put_there_is_lost(damage: str) -> None:
    kept = parcel("payloads/1", {"text": "y" * 1000, "secret": "hunter2"})

    with pytest.raises(PayloadLost, match="'payloads/1'") as lost:
        unpacked(kept.ref, _damaged(kept.text)[damage])
    assert "hunter2" not in str(lost.value)


def test_a_payload_that_no_worker_should_read_is_refused_at_both_ends() -> None:
    with pytest.raises(PayloadTooLarge, match=f"at most {LARGEST:,} are kept"):
        parcel("payloads/1", "x" * LARGEST)
    ref = PayloadRef(key=payload_key(JOB), sha256="0" * 64, size=LARGEST + 1, encoding="gzip")
    with pytest.raises(PayloadLost, match="at most"):
        check_reference(ref, JOB)


@pytest.mark.parametrize(
    "ref",
    [
        {},
        "payloads/1",
        {"key": "", "sha256": "0" * 64, "size": 1, "encoding": "gzip"},
        {"key": "a", "sha256": "0" * 63, "size": 1, "encoding": "gzip"},
        {"key": "a", "sha256": "0" * 64, "size": -1, "encoding": "gzip"},
        {"key": "a", "sha256": "0" * 64, "size": 1, "encoding": "zstd"},
    ],
)
def test_a_malformed_reference_is_an_unreadable_message(ref: Any) -> None:
    body = json.loads(submission({}).message.body)
    del body["payload"]

    with pytest.raises(MessageUnreadable, match="payload_ref"):
        parse(json.dumps(body | {"payload_ref": ref}))


def test_a_null_payload_is_a_payload() -> None:
    envelope = submission({}).envelope.model_copy(update={"payload": None})

    assert b'"payload":null' in envelope.to_body().encode()
    assert Envelope.model_validate_json(envelope.to_body()) == envelope


def test_a_message_that_has_no_payload_any_more_is_not_parted_again() -> None:
    slim, _ = parted(submission({"text": "x"}).message)

    with pytest.raises(MessageUnreadable, match="too large even without its payload"):
        parted(slim)


@pytest.mark.parametrize("text", [b"", b"hello", b"[" * 1000, b"\xff"])
def test_an_object_that_holds_no_json_is_lost(text: bytes) -> None:
    digest = hashlib.sha256(text).hexdigest()
    ref = PayloadRef(key="payloads/1", sha256=digest, size=len(text), encoding="gzip")

    with pytest.raises(PayloadLost, match="'payloads/1' holds no JSON"):
        unpacked(ref, gzip.compress(text))


@pytest.mark.parametrize(
    "key",
    [
        "1",
        f"results/{JOB}",
        f"payloads/results/{JOB}",
        f"dead-letters/{JOB}",
        payload_key(UUID(int=7)),
        payload_key(JOB).upper(),
        f"{payload_key(JOB)}/",
        "payloads/" + "é" * 600,
    ],
)
def test_a_message_can_not_have_another_object_read_as_its_payload(key: str) -> None:
    ref = PayloadRef(key=key, sha256="0" * 64, size=1, encoding="gzip")

    with pytest.raises(PayloadLost, match="is not the key of the payload of the job"):
        check_reference(ref, JOB)


@pytest.mark.parametrize("size", [0, 1, 1_000, 2**20])
def test_what_can_not_be_compressed_fits_into_what_is_read(size: int) -> None:
    text = bytes(random.Random(0).choices(range(256), k=size))  # noqa: S311 - any bytes
    ref = PayloadRef(key="payloads/1", sha256="0" * 64, size=size, encoding="gzip")

    assert len(gzip.compress(text)) <= max_packed(ref)
