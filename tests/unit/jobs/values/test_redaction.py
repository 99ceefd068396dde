"""Texts of errors show nothing that a pattern matches, no secrets, and no validator's input."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, RootModel, SecretBytes, SecretStr, ValidationError

from headgate import App
from headgate.jobs.errors import ChildFailed, ConfigurationError
from headgate.jobs.values.redaction import MARGIN, NOTHING, REDACTED, Redaction, secrets_of
from headgate.jobs.values.texts import LONGEST, legible

CARD = "4111-1111-1111-1111"
CARDS = Redaction([r"\d{4}(-\d{4}){3}"])


def _raised(error: Exception) -> Exception:
    try:
        raise error
    except type(error) as raised:
        return raised


def test_what_a_pattern_matches_is_replaced_wherever_it_stands() -> None:
    redaction = Redaction([r"\d{4}(-\d{4}){3}", re.compile("token=[a-z]+", re.IGNORECASE)])
    error = _raised(ValueError(f"{CARD} with TOKEN=abc, and {CARD}"))
    assert redaction.text(error) == f"{REDACTED} with {REDACTED}, and {REDACTED}"
    told = redaction.traceback(error)
    assert told.endswith(f"ValueError: {REDACTED} with {REDACTED}, and {REDACTED}\n")
    assert "test_redaction.py" in told


def test_the_causes_of_an_error_are_redacted_too() -> None:
    error = RuntimeError("no such card")
    error.__cause__ = _raised(KeyError(CARD))
    told = CARDS.traceback(_raised(error))
    assert CARD not in told
    assert f"KeyError: '{REDACTED}'" in told


def test_without_patterns_a_text_stays_as_it_is() -> None:
    assert NOTHING.text(ValueError(f"{CARD}\x1b")) == f"{CARD}\\x1b"
    assert NOTHING.text("x" * 9_500) == legible("x" * 9_500)


class Order(BaseModel):
    count: int


@pytest.mark.parametrize("given", [CARD, f"{CARD}, input_type=str", f"\n{CARD}"])
def test_a_validation_error_never_quotes_its_input(given: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Order.model_validate({"count": given})
    for each in (NOTHING.text(refused.value), NOTHING.traceback(refused.value)):
        assert CARD not in each
        assert f"input_value={REDACTED}, input_type=str" in each


# --- secrets of a payload ------------------------------------------------------------------------


class Inner(BaseModel):
    key: SecretBytes


@dataclass
class Plain:
    pin: SecretStr


class Payload(BaseModel):
    model_config = ConfigDict(extra="allow")

    token: SecretStr
    inner: list[Inner] = []
    plain: Plain | None = None
    by_name: dict[str, SecretStr] = {}
    other: str = "not a secret"


def test_the_secrets_of_a_payload_are_found_wherever_they_stand() -> None:
    payload = Payload(
        token=SecretStr("tok-1"),
        inner=[Inner(key=SecretBytes(b"key-2"))],
        plain=Plain(SecretStr("pin-3")),
        by_name={"a": SecretStr("name-4")},
        extra=SecretStr("extra-5"),
    )
    assert secrets_of(payload) == {"tok-1", "key-2", "pin-3", "name-4", "extra-5"}
    assert secrets_of(RootModel[list[SecretStr]]([SecretStr("root-6")])) == {"root-6"}


@pytest.mark.parametrize("payload", [None, 5, "text", [], {}, Order(count=1), SecretStr("")])
def test_a_payload_without_secrets_has_none(payload: Any) -> None:
    assert secrets_of(payload) == frozenset()


def test_a_payload_that_contains_itself_is_looked_through_once() -> None:
    payload: list[Any] = [SecretStr("tok-1")]
    payload.append(payload)
    assert secrets_of(payload) == {"tok-1"}


@pytest.mark.parametrize("secret", [SecretStr("a\"b\nc'd"), SecretBytes(b"a\xff\nb")])
def test_a_secret_is_hidden_as_a_repr_quotes_it_too(secret: SecretStr | SecretBytes) -> None:
    value = secret.get_secret_value()
    told = NOTHING.text(ValueError({"token": value}), secrets_of([secret]))
    assert repr(value)[3:-1] not in told
    assert REDACTED in told


def test_of_two_secrets_the_longer_is_hidden_whole() -> None:
    secrets = secrets_of([SecretStr("abc"), SecretStr("abc-def")])
    assert NOTHING.text("abc-def and abc", secrets) == f"{REDACTED} and {REDACTED}"


# --- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", range(LONGEST - 25, LONGEST + 5))
def test_a_cut_leaves_no_part_of_a_match(before: int) -> None:
    text = "x" * before + CARD + "y" * 20_000
    assert "4111" not in CARDS.text(text)
    trace = CARDS._hidden("y" * 20_000 + CARD + "x" * before, (), from_end=True)
    assert "1111" not in trace


@pytest.mark.parametrize("offset", range(len(CARD) + 1))
def test_many_matches_bring_no_part_of_one_into_what_is_left(offset: int) -> None:
    text = "x" * offset + f"{CARD} " * 5_000 + "x" * offset
    told = CARDS.text(text)
    assert "4111" not in told
    assert told.endswith(f"({len(text):,} characters)")
    assert len(told) <= LONGEST
    assert "1111" not in CARDS._hidden(text, (), from_end=True)


def test_a_pattern_is_given_no_more_than_can_be_shown() -> None:
    seen: list[int] = []

    class Recording(Redaction):
        def __init__(self) -> None:
            self._patterns: Any = (self,)

        def sub(self, _by: str, text: str) -> str:
            seen.append(len(text))
            return text

    Recording().text("x" * 10**6)
    assert seen == [LONGEST + MARGIN]


def test_what_a_child_process_has_redacted_is_taken_as_it_is() -> None:
    error = ChildFailed(
        "ValueError", CARD, traceback=f"at {CARD}", retryable=True, retry_after_s=None
    )
    assert CARDS.text(error) == str(error)
    assert CARDS.traceback(error) == f"at {CARD}"


def test_an_error_whose_text_fails_is_named() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise KeyError(CARD)

    assert CARDS.text(Odd()) == "<KeyError in Odd.__str__>"
    assert traceback.format_exception(Odd())


# --- patterns ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("abc", "takes a list of patterns"),
        (re.compile("a"), "takes a list of patterns"),
        (5, "takes a list of patterns"),
        (["("], "is no regular expression"),
        ([b"a"], "is no pattern"),
        ([re.compile(b"a")], "is no pattern"),
        ([5], "is no pattern"),
        ([r"\d*"], "matches the empty text"),
        ([""], "matches the empty text"),
    ],
)
def test_a_pattern_that_can_not_be_meant_is_refused(given: Any, answer: str) -> None:
    with pytest.raises(ConfigurationError, match=answer):
        App("shop", redact=given)


def test_a_payload_that_is_refused_chains_no_error_that_quotes_it() -> None:
    declared = App("shop").define("order", Order)
    bad: Any = {"count": CARD}
    with pytest.raises(Exception, match="count") as refused:
        declared.dump(bad)
    assert CARD not in "".join(traceback.format_exception(refused.value))
