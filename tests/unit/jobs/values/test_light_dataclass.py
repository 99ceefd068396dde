"""A light dataclass is what a frozen one is, but for its constructor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: int
    y: int = 0


def test_it_is_compared_hashed_shown_and_replaced_by_its_fields() -> None:
    assert Point(x=1) == Point(x=1, y=0) != Point(x=2)
    assert len({Point(x=1), Point(x=1, y=0), replace(Point(x=1), y=3)}) == 2
    assert repr(Point(x=1)) == "Point(x=1, y=0)"


def test_it_has_no_fields_but_those_declared_and_takes_them_by_name() -> None:
    with pytest.raises(AttributeError):
        Point(x=1).z = 2  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        Point(1)  # type: ignore[call-arg]
