"""Recorded messages of version 1, which must stay readable forever.

Add files; never change or remove one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from headgate import App, Encryption, Priority, Tenant
from headgate.jobs.core.concurrency import Threads
from headgate.jobs.core.immediate import ImmediateKeys, ImmediateLock, drive
from headgate.jobs.core.keys.key_ring import DataKey, KeyRing
from headgate.jobs.definitions.sealing import seals_of
from headgate.jobs.messages.envelope import (
    VERSION,
    Envelope,
    Options,
    PayloadRef,
    Sealed,
    UniqueBy,
    parse,
)
from headgate.jobs.messages.job_options import ExponentialBackoff, JobKeep, StepsBackoff
from headgate.jobs.messages.large_payloads import unpacked
from headgate.jobs.messages.sealing import opened_payload
from headgate.jobs.messages.signatures import Destination, SigningKey, parted, signed
from headgate.jobs.submission.prepare import prepare
from headgate.jobs.testing import VirtualClock

GOLDEN = Path(__file__).parent / "v1"
SUBMITTED = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


def job_id(number: int) -> UUID:
    return UUID(f"019b7ca4-7a2e-7000-8000-{number:012}")


SEALED_TEXT = "AAECAwQFBgcICQoLPCCidOff4HrpINfuyYgVHe+zqVefFn0BjL5byMYuXrAHV2WrCuS7Tg=="

EXPECTED = {
    "minimal": Envelope(
        v=VERSION,
        id=job_id(1),
        type="send-email",
        payload={"to": "ada@example.com"},
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=SUBMITTED,
    ),
    "full": Envelope(
        v=VERSION,
        id=job_id(2),
        type="capture-payment",
        schema=3,
        payload={"order": 7, "amount": "12.50", "items": [{"sku": "a", "count": 2}], "note": None},
        queue="payments",
        priority=Priority.CRITICAL,
        submitted_at=SUBMITTED,
        not_before=SUBMITTED + timedelta(minutes=15),
        tenant=Tenant(org="org-1", workspace="eu"),
        trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        source="replay:019b7ca4-7a2e-7000-8000-000000000001",
        parent=job_id(1),
        attempts_used=4,
        options=Options(attempts=10, timeout_s=2.5),
    ),
    "options": Envelope(
        v=VERSION,
        id=job_id(3),
        type="daily-report",
        payload={},
        queue="jobs",
        priority=Priority.LOW,
        submitted_at=SUBMITTED,
        source="schedule:daily-report",
        options=Options(timeout_s=90),
    ),
    "unique": Envelope(
        v=VERSION,
        id=job_id(12),
        type="send-email",
        payload={"to": "ada@example.com"},
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=SUBMITTED,
        options=Options(unique=UniqueBy(key="5f0c1a7e93b24d68a1c0", for_s=3600, mode="replace")),
    ),
    "backoff": Envelope(
        v=VERSION,
        id=job_id(15),
        type="send-email",
        payload={"to": "ada@example.com"},
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=SUBMITTED,
        options=Options(
            backoff=ExponentialBackoff(
                kind="exponential", base_s=5, factor=3, cap_s=600, jitter="full", backlog=1000
            )
        ),
    ),
    "steps": Envelope(
        v=VERSION,
        id=job_id(16),
        type="send-email",
        payload={"to": "ada@example.com"},
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=SUBMITTED,
        options=Options(
            backoff=StepsBackoff(kind="steps", delays_s=(60, 300, 900), jitter=0.1),
        ),
    ),
    "keep": Envelope(
        v=VERSION,
        id=job_id(17),
        type="send-email",
        payload={"to": "ada@example.com"},
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=SUBMITTED,
        options=Options(keep=JobKeep(completed_s=3600, failed_s=7_776_000)),
    ),
    "tenant": Envelope(
        v=VERSION,
        id=job_id(4),
        type="send-email",
        payload=None,
        queue="jobs",
        priority=Priority.HIGH,
        submitted_at=SUBMITTED,
        tenant=Tenant(org="org-1"),
    ),
    "unicode": Envelope(
        v=VERSION,
        id=job_id(5),
        type="send-email",
        payload={"to": "zoë", "text": "Ü 漢字 🚀 \u2028 \x00 \ufffe\uffff </script>"},
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=SUBMITTED,
    ),
    "foreign": Envelope(
        v=VERSION,
        id=UUID("4d0f6a4e-5f0b-4f39-9f42-0b8a3f6d6a10"),
        type="send-email",
        payload=[1, 2.5, True],
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    ),
    "delayed": Envelope(
        v=VERSION,
        id=job_id(6),
        type="send-email",
        payload={"to": "ada@example.com"},
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=SUBMITTED,
        not_before=SUBMITTED + timedelta(minutes=15),
    ),
    "expires": Envelope(
        v=VERSION,
        id=job_id(14),
        type="send-code",
        payload={"to": "ada@example.com"},
        queue="jobs",
        priority=Priority.HIGH,
        submitted_at=SUBMITTED,
        expires_at=SUBMITTED + timedelta(minutes=5),
    ),
    "child": Envelope(
        v=VERSION,
        id=job_id(7),
        type="send-email",
        payload={"to": "ada@example.com"},
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=SUBMITTED,
        trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        parent=job_id(1),
    ),
    "replayed": Envelope(
        v=VERSION,
        id=job_id(8),
        type="send-email",
        payload={"to": "ada@example.com"},
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=SUBMITTED,
        source="replay:019b7ca4-7a2e-7000-8000-000000000001",
        attempts_used=2,
    ),
    "schema": Envelope(
        v=VERSION,
        id=job_id(9),
        type="capture-payment",
        schema=2,
        payload={"order": 7, "cents": 1250},
        queue="payments",
        priority=Priority.CRITICAL,
        submitted_at=SUBMITTED,
    ),
    "event": Envelope(
        v=VERSION,
        id=job_id(10),
        type="send-email",
        payload={"to": "ada@example.com"},
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=SUBMITTED,
        source="event:order-placed",
    ),
    "signed": Envelope(
        v=VERSION,
        id=job_id(13),
        type="send-email",
        payload={"to": "ada@example.com"},
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=SUBMITTED,
    ),
    "stored": Envelope(
        v=VERSION,
        id=job_id(11),
        type="send-email",
        payload=None,
        payload_ref=PayloadRef(
            key=f"payloads/{job_id(11)}",
            sha256="fee7bc03f171e889f850f83382eee494350bcd379084908ae66f6ecd2bdacbbd",
            size=24,
            encoding="gzip",
        ),
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=SUBMITTED,
    ),
    "sealed": Envelope(
        v=VERSION,
        id=job_id(13),
        type="send-email",
        payload=None,
        sealed=Sealed(
            key="alias/shop-prod-payloads",
            data_key="YSB3cmFwcGVkIGRhdGEga2V5",
            text=SEALED_TEXT,
        ),
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=SUBMITTED,
    ),
}


def test_every_golden_message_has_its_expectation() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_message_of_version_1_stays_readable_for_ever(name: str) -> None:
    assert parse((GOLDEN / f"{name}.json").read_text()) == EXPECTED[name]


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in ("foreign", "signed")])
def test_today_s_writer_still_writes_the_same_fields(name: str) -> None:
    written = json.loads(EXPECTED[name].to_body())
    assert written == json.loads((GOLDEN / f"{name}.json").read_text())


class _Keys:
    """A key service that has unwrapped the golden message's data key."""

    def generate(self, key: str, context: Mapping[str, str]) -> DataKey:
        raise NotImplementedError  # the golden message is only opened

    def unwrap(self, key: str, wrapped: bytes, context: Mapping[str, str]) -> bytes:
        assert (key, wrapped) == ("alias/shop-prod-payloads", b"a wrapped data key")
        assert context == {
            "app": "shop",
            "stage": "prod",
            "type": "send-email",
            "use": "payload",
        }
        return bytes(range(32))


def test_a_sealed_message_of_version_1_can_be_opened_for_ever() -> None:
    app = App("shop", stage="prod", encryption=Encryption())
    ring = KeyRing(ImmediateKeys(_Keys()), lock=ImmediateLock, clock=VirtualClock())
    seals = seals_of(app, ring, Threads())
    envelope = parse((GOLDEN / "sealed.json").read_text())
    assert drive(opened_payload(seals, envelope)) == {"to": "ada@example.com"}


def test_a_minimal_submission_still_has_the_minimal_body_to_the_byte() -> None:
    app = App("shop", stage="test")
    send_email = app.define("send-email", dict[str, str])
    submission = prepare(
        app,
        app.topology,
        send_email,
        {"to": "ada@example.com"},
        {},
        now=SUBMITTED,
        job_id=job_id(1),
    )
    assert submission.message.body == (GOLDEN / "minimal.json").read_text().rstrip("\n")


def test_no_golden_file_was_ever_changed() -> None:
    written = (GOLDEN / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split() for line in written)}
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in GOLDEN.iterdir()
        if path.name != "SHA256SUMS"
    }
    assert found == sums


def test_a_message_that_was_signed_once_stays_valid_for_ever() -> None:
    body = (GOLDEN / "signed.json").read_text().rstrip("\n")
    text, signature = parted(body)
    assert signature is not None
    key = SigningKey(b"the key of the golden messages: 32+ bytes")
    destination = Destination(queue="shop-test-jobs-normal")
    assert signed(text, key, destination) == body
    assert text == EXPECTED["signed"].to_body()


def test_a_payload_that_was_stored_once_stays_readable_for_ever() -> None:
    ref = EXPECTED["stored"].payload_ref
    assert ref is not None
    assert unpacked(ref, (GOLDEN / "stored.object.gz").read_bytes()) == {"to": "ada@example.com"}
