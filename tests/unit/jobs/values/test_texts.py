"""Readable forms of arbitrary texts: short, valid, and as informative as possible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.aws.dynamo.attributes import encode
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import ChildFailed
from headgate.jobs.testing.memory import sqs_limits
from headgate.jobs.values.texts import (
    LONGEST,
    LONGEST_NAME,
    kind_of,
    legible,
    printable,
    text_of,
    type_of,
    with_article,
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain", "plain"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("caf\udce9", "caf\\udce9"),
        ("\x00\x1b[31m\x7f\x85", "\\x00\\x1b[31m\\x7f\\x85"),
        ("\ufffe\uffff", "\\ufffe\\uffff"),
        ("größe \N{PILE OF POO}", "größe \N{PILE OF POO}"),
        (ValueError("v"), "v"),
        (None, "None"),
    ],
)
def test_what_a_text_may_not_hold_is_escaped(text: object, said: str) -> None:
    assert legible(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[bold]größe[/] :smile:\t\u05e9\n", "[bold]größe[/] :smile:\t\u05e9\n"),
        ("\x1b]0;owned\x07\x9b2J\x7f", "\\x1b]0;owned\\x07\\x9b2J\\x7f"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("\u202egnp.exe\u2066\u200f\u061c", "\\u202egnp.exe\\u2066\\u200f\\u061c"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("caf\udce9", "caf\\udce9"),
    ],
)
def test_what_a_terminal_would_obey_is_printed_escaped(text: str, said: str) -> None:
    assert printable(text) == said


def test_what_is_cut_off_is_told() -> None:
    assert legible("x" * 500_000) == "x" * (LONGEST - 22) + "… (500,000 characters)"
    assert legible("start" + "x" * 500_000 + "end", 40, from_end=True).endswith("xend")
    assert legible("abcdef", 3) == "abc"


class _Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_an_error_without_a_text_says_so() -> None:
    assert text_of(_Silent()) == "<RuntimeError in _Silent.__str__>"


def test_the_class_of_an_error_is_named_legibly() -> None:
    child = ChildFailed("E\x00" * 1000, "", traceback="", retryable=True, retry_after_s=None)
    assert len(type_of(child)) == LONGEST_NAME
    assert type_of(child).startswith("E\\x00E")
    assert type_of(_Silent()) == "_Silent"


@given(
    text=st.text(st.characters(), max_size=300),
    times=st.integers(1, 40),
    most=st.integers(1, 400),
    from_end=st.booleans(),
)
def test_every_text_is_taken_by_table_and_queue(
    text: str, times: int, most: int, from_end: bool
) -> None:
    said = legible(text * times, most, from_end=from_end)
    assert len(said) <= most
    encode(Item(pk="job#1", sk="failed", data={"error_message": said}))
    if said:
        sqs_limits.check_message(OutgoingMessage(body="{}", attributes={"A": said}), fifo=False)
    assert legible(said, most, from_end=from_end) == said


@pytest.mark.parametrize(
    ("noun", "said"),
    [
        ("object", "an object"),
        ("int", "an int"),
        ("dict", "a dict"),
        ("UUID", "a UUID"),
    ],
)
def test_a_noun_has_the_article_of_its_first_sound(noun: str, said: str) -> None:
    assert with_article(noun) == said


def test_the_kind_of_a_value_is_its_class() -> None:
    assert [kind_of(value) for value in (7, "seven", None)] == ["an int", "a str", "a NoneType"]
