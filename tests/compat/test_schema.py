"""The published JSON Schema matches today's format, and judges messages as the reader does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from headgate.jobs.messages.envelope import json_schema

# Imported where it is used: it compiles forty grammars, two seconds in each test process.
if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

GOLDEN = Path(__file__).parent / "v1"
PUBLISHED = Path(__file__).parents[2] / "docs" / "envelope.v1.schema.json"

MINIMAL: dict[str, Any] = json.loads((GOLDEN / "minimal.json").read_text())


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    from jsonschema import Draft202012Validator, FormatChecker

    published = json.loads(PUBLISHED.read_text())
    Draft202012Validator.check_schema(published)
    return Draft202012Validator(published, format_checker=FormatChecker())


def test_the_published_schema_is_the_reader_s_model() -> None:
    expected = json.dumps(json_schema(), indent=2) + "\n"
    assert PUBLISHED.read_text() == expected, "the format has changed: `make schema` rewrites it"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_a_real_message_fits_the_schema(schema: Draft202012Validator, path: Path) -> None:
    schema.validate(json.loads(path.read_text()))


@pytest.mark.parametrize("name", MINIMAL)
def test_no_field_of_a_minimal_message_can_be_left_out(
    schema: Draft202012Validator, name: str
) -> None:
    lacking = {key: value for key, value in MINIMAL.items() if key != name}
    assert not schema.is_valid(lacking)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("v", 2),
        ("v", "1"),
        ("id", "1"),
        ("type", ""),
        ("type", "t" * 129),
        ("schema", 0),
        ("queue", 5),
        ("priority", "urgent"),
        ("submitted_at", "soon"),
        ("tenant", {}),
        ("tenant", "org"),
        ("parent", "1"),
        ("attempts_used", -1),
        ("options", {"attempts": 0}),
        ("options", {"attempts": 1001}),
        ("options", {"timeout_s": 0}),
    ],
)
def test_a_malformed_message_does_not_fit_the_schema(
    schema: Draft202012Validator, name: str, value: object
) -> None:
    errors = list(schema.iter_errors({**MINIMAL, name: value}))
    assert {error.absolute_path[0] for error in errors} == {name}


def test_the_schema_leaves_room_for_fields_that_come_later(schema: Draft202012Validator) -> None:
    schema.validate({**MINIMAL, "later": True, "options": {"later": True}})


def test_every_field_of_the_schema_says_what_it_means(schema: Draft202012Validator) -> None:
    document = cast("dict[str, Any]", schema.schema)
    fields = {**document["properties"], **document["$defs"]["Options"]["properties"]}
    mute = [name for name, field in fields.items() if not {"description", "$ref"} & field.keys()]
    assert not mute
