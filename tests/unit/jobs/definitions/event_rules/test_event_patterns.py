"""Event patterns: each is valid for EventBridge, or refused by the field's name."""

from __future__ import annotations

import json
import math
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.definitions.event_rules.event_patterns import LONGEST_PATTERN, checked_pattern
from headgate.jobs.errors import ConfigurationError


def choice(wanted: Any) -> dict[str, Any]:
    """Return a pattern for one field."""
    return {"detail": {"x": [wanted]}}


@pytest.mark.parametrize(
    "wanted",
    [
        "",
        "running",
        0,
        -1.5,
        123_456_789_012,
        True,
        None,
        {"prefix": "eu-"},
        {"prefix": ""},
        {"prefix": {"equals-ignore-case": "EU-"}},
        {"suffix": ".png"},
        {"suffix": {"equals-ignore-case": ".PNG"}},
        {"equals-ignore-case": "Alice"},
        {"wildcard": "dir/*.png"},
        {"wildcard": r"\**\\*\*"},
        {"wildcard": ""},
        {"exists": True},
        {"exists": False},
        {"cidr": "10.0.0.0/24"},
        {"cidr": "10.0.0.1/0"},
        {"cidr": "2001:db8::/64"},
        {"numeric": ["=", 100]},
        {"numeric": ["<", 10]},
        {"numeric": ["<=", -10.25]},
        {"numeric": [">", 0]},
        {"numeric": [">=", 3.018e2]},
        {"numeric": [">", 0, "<=", 5]},
        {"numeric": [">=", -5, "<", 0.5]},
        {"anything-but": "initializing"},
        {"anything-but": 123},
        {"anything-but": ["stopped", "overloaded"]},
        {"anything-but": [100, 200.5]},
        {"anything-but": {"prefix": "init"}},
        {"anything-but": {"prefix": ["init", "error"]}},
        {"anything-but": {"suffix": ".png"}},
        {"anything-but": {"suffix": [".png", ".jpg"]}},
        {"anything-but": {"equals-ignore-case": "stopped"}},
        {"anything-but": {"equals-ignore-case": ["stopped", "lost"]}},
        {"anything-but": {"wildcard": "*/lib/*"}},
        {"anything-but": {"wildcard": ["*/lib/*", "*.jar"]}},
    ],
    ids=repr,
)
def test_every_comparison_that_aws_documents_is_taken_as_it_is(wanted: Any) -> None:
    assert checked_pattern("p", choice(wanted)) == choice(wanted)


def test_an_or_has_patterns_each_of_which_may_match() -> None:
    pattern = {
        "source": ["shop"],
        "detail": {
            "$or": [
                {"total": [{"numeric": [">", 5]}]},
                {"state": ["new"], "$or": [{"a": [1]}, {"b": {"c": [2]}}]},
            ]
        },
    }
    assert checked_pattern("p", pattern) == pattern


@pytest.mark.parametrize(
    ("wanted", "fault"),
    [
        ({"matches": "x"}, r"\['x'\]\[0\]: EventBridge has no operator 'matches' here"),
        ({"Prefix": "x"}, "no operator 'Prefix' here: did you mean 'prefix'"),
        ({"regex": "x"}, "no operator 'regex'"),
        ({5: "x"}, "no operator 5 here"),
        ({}, "must have one operator, got {}"),
        ({"prefix": "a", "suffix": "b"}, "must have one operator"),
        ({"prefix": 5}, r"\['prefix'\] must be a string, got 5"),
        ({"prefix": ["a", "b"]}, r"\['prefix'\] must be a string"),
        ({"prefix": {"suffix": "a"}}, "no operator 'suffix' here"),
        ({"suffix": None}, r"\['suffix'\] must be a string"),
        ({"suffix": {"equals-ignore-case": 5}}, r"\['equals-ignore-case'\] must be a string"),
        ({"equals-ignore-case": ["a"]}, r"\['equals-ignore-case'\] must be a string"),
        ({"wildcard": "a**b"}, "no . right after another"),
        ({"wildcard": r"a\b"}, "no backslash but before"),
        ({"wildcard": "a\\"}, "no backslash but before"),
        ({"wildcard": 5}, r"\['wildcard'\] must be a string"),
        ({"exists": "true"}, "must be True or False"),
        ({"exists": 1}, "must be True or False"),
        ({"cidr": "10.0.0.0"}, "block of addresses"),
        ({"cidr": "10.0.0.0/32"}, "block of addresses"),
        ({"cidr": "10.0.0/24"}, "block of addresses"),
        ({"cidr": "10.0.0.0/-1"}, "block of addresses"),
        ({"cidr": "10.0.0.0/24/1"}, "block of addresses"),
        ({"cidr": "2001:db8::/128"}, "block of addresses"),
        ({"cidr": "fe80::1%eth0/64"}, "block of addresses"),
        ({"cidr": "example.com/24"}, "block of addresses"),
        ({"cidr": 10}, r"\['cidr'\] must be a string"),
        ({"numeric": []}, "must be one bound"),
        ({"numeric": ["="]}, "must be one bound"),
        ({"numeric": "="}, "must be one bound"),
        ({"numeric": [">", 0, "<="]}, "must be one bound"),
        ({"numeric": ["==", 5]}, "must be one bound"),
        ({"numeric": ["!=", 5]}, "must be one bound"),
        ({"numeric": [5, "="]}, r"\['numeric'\]\[1\] must be a number"),
        ({"numeric": ["=", "5"]}, r"\['numeric'\]\[1\] must be a number"),
        ({"numeric": ["=", True]}, r"\['numeric'\]\[1\] must be a number"),
        ({"numeric": ["=", math.nan]}, r"\['numeric'\]\[1\] must be a number"),
        ({"numeric": ["<", math.inf]}, r"\['numeric'\]\[1\] must be a number"),
        ({"numeric": ["=", 2**53 + 1]}, "that a double holds exactly"),
        ({"numeric": ["=", 10**5000]}, "that a double holds exactly, got an int"),
        ({"numeric": ["=", 5, "<", 10]}, "must be one bound"),
        ({"numeric": ["<", 0, ">", 5]}, "must be one bound"),
        ({"numeric": [">", 0, ">", 5]}, "must be one bound"),
        ({"numeric": [["="], 5]}, "must be one bound"),
        ({"numeric": [">", 5, "<", 5]}, "the lower bound must be the smaller one"),
        ({"numeric": [">", 5, "<", 0]}, "the lower bound must be the smaller one"),
        ({"numeric": [">", 0, "<", 5, ">", 7]}, "must be one bound"),
        ({"anything-but": []}, "list of strings or of numbers"),
        ({"anything-but": ["a", 5]}, "list of strings or of numbers"),
        ({"anything-but": [None]}, r"\['anything-but'\]\[0\] must be a number"),
        ({"anything-but": None}, r"\['anything-but'\] must be a number"),
        ({"anything-but": True}, r"\['anything-but'\] must be a number"),
        ({"anything-but": {"numeric": ["=", 5]}}, "no operator 'numeric' here"),
        ({"anything-but": {"prefix": ""}}, r"\['prefix'\] must not be empty"),
        ({"anything-but": {"prefix": 123}}, r"\['prefix'\] must be a string"),
        ({"anything-but": {"prefix": []}}, r"\['prefix'\] must not be empty"),
        ({"anything-but": {"suffix": ["a", 5]}}, r"\['suffix'\]\[1\] must be a string"),
        (
            {"anything-but": {"prefix": {"equals-ignore-case": "a"}}},
            r"\['prefix'\] must be a string",
        ),
        ({"anything-but": {"wildcard": "**"}}, "no . right after another"),
        (["nested"], "must be a string, a number, True, False, None or a comparison"),
        (b"bytes", "must be a string, a number"),
        (math.nan, "that a double holds exactly"),
        (10**5000, "that a double holds exactly"),
        ("\ud800", "without lone surrogates"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else "wanted",
)
def test_a_comparison_that_eventbridge_would_refuse_is_refused_by_its_place(
    wanted: Any, fault: str
) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"event_rule\('n'\): pattern\['detail'\].*{fault}"
    ):
        checked_pattern("event_rule('n')", choice(wanted))


def endless() -> dict[str, Any]:
    pattern: dict[str, Any] = {}
    pattern["x"] = pattern
    return pattern


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        (None, "pattern must be an event pattern"),
        ([], "pattern must be an event pattern"),
        ({}, "pattern must be an event pattern"),
        ({"detail": {}}, r"\['detail'\] must name at least one field"),
        ({"source": "shop"}, r"write {'source': \['shop'\]}"),
        ({"source": []}, "a list of its possible values"),
        ({"source": None}, "a list of its possible values"),
        ({5: ["shop"]}, "a field's name must be a string, got 5"),
        ({"\ud800": ["shop"]}, "a field's name must be a string without lone surrogates"),
        ({"$or": [{"a": [1]}]}, r"\['\$or'\] must be a list of two patterns or more"),
        ({"$or": {"a": [1]}}, r"\['\$or'\] must be a list of two patterns or more"),
        ({"$or": [{"a": [1]}, "b"]}, r"\['\$or'\]\[1\] must be a pattern"),
        ({"$or": [{"a": [1]}, {}]}, r"\['\$or'\]\[1\] must name at least one field"),
        ({"$or": [{"a": [1]}, {"numeric": ["=", 5]}]}, "got the operator 'numeric'"),
        (endless(), "is nested more than 100 deep"),
        ({"a": [{"b": endless()}]}, "no operator 'b'"),
        ({"source": ["x" * LONGEST_PATTERN]}, "has 2,063 characters of JSON.* takes 2,048"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else "wanted",
)
def test_a_pattern_that_eventbridge_would_refuse_is_refused_by_its_place(
    pattern: Any, fault: str
) -> None:
    with pytest.raises(ConfigurationError, match=rf"event_rule\('n'\): .*{fault}"):
        checked_pattern("event_rule('n')", pattern)


def test_a_pattern_may_be_as_long_as_eventbridge_takes_it() -> None:
    room = LONGEST_PATTERN - len('{"source":[""]}')
    pattern = {"source": ["ä" * room]}
    assert checked_pattern("p", pattern) == pattern
    with pytest.raises(ConfigurationError, match=r"2,049 characters"):
        checked_pattern("p", {"source": ["ä" * (room + 1)]})


def test_a_pattern_is_copied_whatever_becomes_of_it() -> None:
    states = ["new"]
    pattern = MappingProxyType({"detail": MappingProxyType({"state": states}), "id": ("a", "b")})

    checked = checked_pattern("p", pattern)
    states.append("old")

    assert checked == {"detail": {"state": ["new"]}, "id": ["a", "b"]}
    assert json.loads(json.dumps(checked)) == checked


NAMES = st.sampled_from(
    ["source", "detail", "$or", "prefix", "numeric", "anything-but", "exists", "cidr", "wildcard"]
)
LEAVES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["=", ">", "<=", "10.0.0.0/8", "*", "\\", "\ud800", b"", object()])
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(NAMES | st.text(max_size=2) | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(ANYTHING | st.dictionaries(NAMES, ANYTHING, min_size=1, max_size=3))
def test_whatever_a_pattern_is_it_is_copied_or_refused_by_a_typed_error(pattern: Any) -> None:
    try:
        checked = checked_pattern("event_rule('n')", pattern)
    except ConfigurationError:
        return
    text = json.dumps(checked, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    assert len(text.encode().decode()) <= LONGEST_PATTERN
    assert checked_pattern("event_rule('n')", json.loads(text)) == checked
