"""Signatures of bodies: what they cover, and that nothing of it can be changed."""

from __future__ import annotations

import hashlib
import hmac
import json
import pickle
from base64 import urlsafe_b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import App, Signing, SubmitOptions, Tenant
from headgate.errors import ConfigurationError
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.job_ids import derived_job_id
from headgate.jobs.messages.signatures import (
    Destination,
    Signature,
    SigningKey,
    parted,
    reserved,
    signed,
    verifies,
)
from headgate.jobs.submission.prepare import prepare

KEY = SigningKey(b"a key of thirty-two bytes or more")
OTHER = SigningKey(b"another key of thirty-two bytes or more")
PLACE = Destination(queue="shop-jobs-normal")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

APP = App("shop", signing=Signing(keys=[KEY.secret]))
PAY = APP.define("pay", dict[str, Any])


def body_of(payload: Any, **overrides: Unpack[SubmitOptions]) -> str:
    """Return a submission's body, as it is before it is signed."""
    job_id = derived_job_id(NOW, "test")
    made = prepare(APP, APP.topology, PAY, payload, overrides, now=NOW, job_id=job_id)
    return made.message.body


FULL = signed(
    body_of(
        {"order": 7, "note": "zoë", "signature": f"{KEY.id}.{'A' * 43}"},
        delay=timedelta(minutes=5),
        tenant=Tenant(org="acme", workspace="eu"),
        max_attempts=7,
        timeout=30,
    ),
    KEY,
    PLACE,
)
"""A signed body with every field that a submission may have."""


def is_valid(body: str, place: Destination = PLACE, key: SigningKey = KEY) -> bool:
    text, signature = parted(body)
    if signature is None or signature.key_id != key.id:
        return False  # no key of that id is known
    return verifies(signature, key, text, place)


def test_a_signature_is_that_of_the_body_in_its_place_by_its_key() -> None:
    assert is_valid(FULL)
    assert not is_valid(FULL, key=OTHER)
    assert not is_valid(FULL, replace(PLACE, queue="shop-jobs-high"))
    assert not is_valid(FULL, replace(PLACE, fifo_group="a"))


def test_the_digest_is_the_documented_one() -> None:
    text, signature = parted(FULL)
    assert signature is not None
    told = "\n".join(("headgate-signature-1", PLACE.queue, "", text))
    digest = hmac.new(KEY.secret, told.encode(), hashlib.sha256).digest()
    assert signature.digest == urlsafe_b64encode(digest).decode().rstrip("=")
    key_id = hmac.new(KEY.secret, b"headgate-key-id", hashlib.sha256).hexdigest()[:8]
    assert signature.key_id == key_id


def test_whoever_does_not_know_signatures_reads_the_same_job() -> None:
    text, _ = parted(FULL)
    assert parse(FULL) == parse(text)
    fields = json.loads(FULL)
    assert [*fields][-1] == "signature"
    assert {key: value for key, value in fields.items() if key != "signature"} == json.loads(text)


def test_a_body_has_its_final_size_before_it_is_signed() -> None:
    unsigned = body_of({"order": 7})
    assert len(signed(unsigned, KEY, PLACE)) == len(unsigned)
    assert parted(unsigned) == (parted(signed(unsigned, KEY, PLACE))[0], None)


def test_a_body_is_signed_anew_in_place_of_its_signature() -> None:
    again = signed(signed(FULL, OTHER, Destination(queue="elsewhere")), KEY, PLACE)
    assert again == FULL


def test_a_signature_within_the_payload_is_none() -> None:
    nested = '{"v":1,"payload":' + FULL + "}"
    assert parted(nested) == (nested, None)
    assert parted(reserved(nested)) == (nested, None)


@pytest.mark.parametrize("body", ["", "}", "{}", "[]", "hello", ',"signature":"x"}', "\ud800" * 70])
def test_any_text_is_parted(body: str) -> None:
    assert parted(body) == (body, None)
    assert not verifies(Signature(key_id=KEY.id, digest="A" * 43), KEY, body, PLACE)


_REPLACED = st.one_of(st.none(), st.booleans(), st.integers(0, 9), st.text(max_size=5))


@settings(max_examples=60)
@given(data=st.data())
def test_any_single_change_of_a_field_is_refused(data: st.DataObject) -> None:
    fields = json.loads(FULL)
    name = data.draw(st.sampled_from([each for each in fields if each != "signature"]))
    value = data.draw(_REPLACED.filter(lambda value: value != fields[name]))
    taken_out = data.draw(st.booleans())
    changed = {key: fields[key] for key in fields if key != name or not taken_out}
    if not taken_out:
        changed[name] = value
    assert not is_valid(_written(changed))
    assert not is_valid(_written({"later": value, **fields}))


def test_the_writer_of_these_tests_changes_nothing_by_itself() -> None:
    assert _written(json.loads(FULL)) == FULL


@settings(max_examples=100)
@given(data=st.data())
def test_any_single_character_that_is_changed_added_or_removed_is_refused(
    data: st.DataObject,
) -> None:
    at = data.draw(st.integers(0, len(FULL) - 1))
    instead = data.draw(st.text(max_size=2).filter(lambda text: text != FULL[at]))
    assert not is_valid(FULL[:at] + instead + FULL[at + 1 :])


def test_no_key_is_shown() -> None:
    shown = f"{KEY!r} {Signing(keys=[KEY.secret])!r} {APP!r}"
    assert "thirty-two" not in shown
    with pytest.raises(ConfigurationError) as refused:
        App("shop", signing="a key of thirty-two bytes or more")  # type: ignore[arg-type]  # which is refused
    assert "thirty-two" not in str(refused.value)
    assert pickle.loads(pickle.dumps(KEY)) == KEY  # noqa: S301 - of this test


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"keys": ["short"]}, "32 random bytes or more, got 5"),
        ({"keys": "a key of thirty-two bytes or more"}, "takes a list of keys"),
        ({"keys": [7]}, "as strings or bytes, got an int"),
        ({"keys": [KEY.secret], "secret": "shop"}, "either secret=, .* or keys="),
        ({"secret": ""}, "the name or the ARN of a secret"),
        ({"accept_unsigned": "yes"}, "accept_unsigned=.* must be True or False"),
    ],
)
def test_what_can_not_sign_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        Signing(**options)


def test_a_fifo_message_is_bound_to_its_group_and_a_fair_queue_s_to_none() -> None:
    fair = OutgoingMessage(body="{}", group="acme")
    assert Destination.of("mail", fair) == Destination(queue="mail")
    fifo = replace(fair, deduplication_id=str(UUID(int=1)))
    assert Destination.of("mail.fifo", fifo) == Destination(queue="mail.fifo", fifo_group="acme")


def _written(fields: dict[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
