"""Durations: what is taken for one, and what is refused."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from headgate.errors import ConfigurationError, DelayInvalid, SettingsInvalid
from headgate.jobs.values.durations import DurationField, duration
from headgate.jobs.values.kinds import check_kinds

lengths = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=100 * 365))


@dataclass(frozen=True, kw_only=True)
class Nap:
    """A value with a duration."""

    where: str = "sofa"
    lasts: DurationField = DurationField(90, positive=True)

    def __post_init__(self) -> None:
        check_kinds("a nap", self)


@given(lengths)
def test_seconds_and_a_timedelta_are_the_same_duration(length: timedelta) -> None:
    assert duration("delay", length.total_seconds()) == duration("delay", length) == length


@given(st.integers(0, 10**9))
def test_a_whole_number_is_seconds(seconds: int) -> None:
    assert duration("delay", seconds) == timedelta(seconds=seconds)


@pytest.mark.parametrize("value", ["30", "30s", "PT30S", None, True, False, [], float("nan"), 1j])
def test_a_value_of_another_kind_is_refused_with_what_to_write(value: object) -> None:
    says = r"^delay must be a timedelta or a number of seconds, got .*: write timedelta\(seconds="
    with pytest.raises(SettingsInvalid, match=says):
        duration("delay", value)


@pytest.mark.parametrize(
    "value",
    [float("inf"), -float("inf"), 1e15, -1e300, pytest.param(10**5000, id="10**5000")],
)
def test_a_number_that_no_timedelta_holds_is_refused(value: float) -> None:
    with pytest.raises(SettingsInvalid, match="at most 999,999,999 days"):
        duration("delay", value)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (-1, "got -1 s"),
        (-0.5, "got -0.5 s"),
        (timedelta(seconds=-1), "got -1 day, 23:59:59"),
        (timedelta.min, "got -999999999 days, 0:00:00"),
    ],
)
def test_a_negative_duration_is_refused(value: timedelta | float, told: str) -> None:
    with pytest.raises(DelayInvalid, match=f"^delay must not be negative, {told}$"):
        duration("delay", value, error=DelayInvalid)


@pytest.mark.parametrize("value", [0, -0.0, 0.0, timedelta(0), 1e-9])
def test_nothing_is_refused_where_a_duration_has_to_be_positive(value: timedelta | float) -> None:
    assert duration("delay", value) == timedelta(0)
    with pytest.raises(SettingsInvalid, match="delay must be positive"):
        duration("delay", value, positive=True)


@given(lengths.filter(bool))
def test_a_field_is_given_in_either_form_and_read_as_a_timedelta(length: timedelta) -> None:
    nap = Nap(lasts=length.total_seconds())
    assert nap == Nap(lasts=length) == replace(Nap(), lasts=length)
    assert nap.lasts == length
    assert hash(nap) == hash(Nap(lasts=length))
    assert pickle.loads(pickle.dumps(nap)) == copy.deepcopy(nap) == nap  # noqa: S301 - our own


def test_a_field_has_its_default_and_is_shown_as_a_timedelta() -> None:
    assert Nap().lasts == timedelta(seconds=90)
    assert repr(Nap(lasts=1)) == "Nap(where='sofa', lasts=datetime.timedelta(seconds=1))"


def test_a_field_of_a_frozen_value_can_not_be_set() -> None:
    with pytest.raises(FrozenInstanceError):
        Nap().lasts = timedelta(1)  # type: ignore[misc]  # the point


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("1 h", r"Nap\(lasts=...\) must be a timedelta or a number of seconds, got '1 h'"),
        (0, r"Nap\(lasts=...\) must be positive"),
        (-1, r"Nap\(lasts=...\) must not be negative"),
    ],
)
def test_a_field_names_itself_when_it_refuses_a_value(value: object, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        Nap(lasts=value)  # type: ignore[arg-type]  # the point


def test_a_field_is_a_number_of_seconds_in_json() -> None:
    read = TypeAdapter(Nap)
    assert read.validate_python({"lasts": 1.5}) == Nap(lasts=1.5)
    assert read.validate_json(b'{"where": "bed"}') == Nap(where="bed")


@pytest.mark.parametrize("value", ['"PT30S"', '"30"', "true", "-1", "1e300", "null"])
def test_a_field_is_nothing_but_a_number_of_seconds_in_json(value: str) -> None:
    with pytest.raises(ValidationError, match="lasts"):
        TypeAdapter(Nap).validate_json(f'{{"lasts": {value}}}')
