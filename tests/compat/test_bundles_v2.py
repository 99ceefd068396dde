"""Recorded bundles, which must stay readable forever, and their published JSON Schema.

Add files; never change or remove one.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from headgate import Priority, Tenant
from headgate.jobs.messages.bundles import bundle_body, jobs_of, json_schema
from headgate.jobs.messages.envelope import VERSION, Envelope, Options, parse
from headgate.jobs.messages.signatures import Destination, SigningKey, parted, signed

GOLDEN = Path(__file__).parent / "v2"
DOCS = Path(__file__).parents[2] / "docs"
PUBLISHED, OF_JOBS = DOCS / "bundle.v2.schema.json", DOCS / "envelope.v1.schema.json"


def _job(number: int, *, attempts_used: int = 0, options: Options | None = None) -> Envelope:
    return Envelope(
        v=VERSION,
        id=UUID(f"019b7ca4-7a2e-7000-8000-{number:012}"),
        type="embed",
        payload={"text": f"text {number}\n"},
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
        tenant=Tenant(org="acme"),
        attempts_used=attempts_used,
        options=options,
    )


JOBS = [_job(1), _job(2, attempts_used=1), _job(3, options=Options(attempts=5))]


def _golden(name: str) -> str:
    return (GOLDEN / name).read_text().removesuffix("\n")


def test_a_bundle_that_was_written_once_stays_readable_for_ever() -> None:
    bodies = jobs_of(_golden("jobs.json"))
    assert bodies is not None
    assert [parse(body) for body in bodies] == JOBS


def test_today_s_writer_still_writes_the_same_bundle_to_the_byte() -> None:
    assert bundle_body(job.to_body() for job in JOBS) == _golden("jobs.json")


def test_the_jobs_of_a_bundle_that_were_signed_once_stay_valid_for_ever() -> None:
    bodies = jobs_of(_golden("signed.json"))
    assert bodies is not None
    key = SigningKey(b"the key of the golden messages: 32+ bytes")
    destination = Destination(queue="shop-test-jobs-normal")
    for body, job in zip(bodies, JOBS[:2], strict=True):
        text, _ = parted(body)
        assert text == job.to_body()
        assert signed(text, key, destination) == body


def test_no_golden_file_was_ever_changed() -> None:
    written = (GOLDEN / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split() for line in written)}
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in GOLDEN.glob("*.json")
    }
    assert found == sums


def test_the_published_schema_is_that_of_the_format() -> None:
    expected = json.dumps(json_schema(), indent=2) + "\n"
    assert PUBLISHED.read_text() == expected, "the format has changed: `make schema` rewrites it"


def test_a_real_bundle_fits_the_schema_and_a_malformed_one_does_not() -> None:
    # Imported here: it compiles forty grammars, two seconds in each test process.
    from jsonschema import Draft202012Validator, FormatChecker
    from referencing import Registry, Resource

    published, of_jobs = (json.loads(path.read_text()) for path in (PUBLISHED, OF_JOBS))
    Draft202012Validator.check_schema(published)
    known: Registry[Any] = Registry().with_resource(of_jobs["$id"], Resource.from_contents(of_jobs))
    schema = Draft202012Validator(published, registry=known, format_checker=FormatChecker())
    schema.validate(json.loads(_golden("jobs.json")))
    schema.validate(json.loads(_golden("signed.json")))
    [job, *_] = json.loads(_golden("jobs.json"))["bundle"]
    malformed: list[Any] = [[], [{**job, "priority": "urgent"}], [{}], "jobs"]
    for bundle in malformed:
        assert not schema.is_valid({"v": 2, "bundle": bundle})


@pytest.mark.parametrize("version", [1, 3])
def test_another_version_is_no_bundle(version: int) -> None:
    assert jobs_of(_golden("jobs.json").replace('{"v":2', f'{{"v":{version}', 1)) is None
