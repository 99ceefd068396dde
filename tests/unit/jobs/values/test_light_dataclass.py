"""A light dataclass is what a frozen one is, but for its constructor; ours share their methods."""

from __future__ import annotations

import pickle
from copy import copy
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: int
    y: int = 0


@frozen_dataclass(frozen=True, slots=True)
class Account:
    name: str
    balance: float = 0
    secret: str = field(default="", repr=False)
    seen: list[Any] = field(default_factory=list, compare=False)


@dataclass(frozen=True, slots=True)
class _Plain:
    name: str
    balance: float = 0
    secret: str = field(default="", repr=False)
    seen: list[Any] = field(default_factory=list, compare=False)


@frozen_dataclass(frozen=True)
class Named:
    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return 1


@pytest.mark.parametrize("values", [("a",), ("a", float("inf"), "s"), ("b", 1.5, "", [1])])
def test_a_value_is_shown_hashed_and_compared_as_a_frozen_dataclass_is(values: Any) -> None:
    account, plain = Account(*values), _Plain(*values)
    assert repr(account) == repr(plain).replace("_Plain", "Account")
    assert hash(account) == hash(plain)
    assert account == Account(*values)
    assert account != object()
    assert account != replace(account, name="other")
    assert account == replace(account, seen=[2])


def test_a_frozen_value_refuses_to_be_changed_even_after_a_copy() -> None:
    for account in (Account("a"), copy(Account("a")), pickle.loads(pickle.dumps(Account("a")))):  # noqa: S301 - our own
        assert account == Account("a")
        with pytest.raises(FrozenInstanceError):
            account.name = "b"  # type: ignore[misc]
        with pytest.raises(FrozenInstanceError):
            del account.name


def test_a_frozen_value_without_slots_keeps_its_fields_and_takes_no_others() -> None:
    for named in (Named("a"), copy(Named("a")), pickle.loads(pickle.dumps(Named("a")))):  # noqa: S301 - our own
        for change in ("name", "other"):
            with pytest.raises(FrozenInstanceError):
                setattr(named, change, "b")
        with pytest.raises(FrozenInstanceError):
            del named.name
        assert named.name == "a"


def test_a_value_that_holds_itself_is_shown() -> None:
    account = Account("a", seen=[])
    account.seen.append(account)
    assert repr(account) == "Account(name='a', balance=0, seen=[...])"


def test_the_methods_of_a_class_itself_are_kept() -> None:
    assert repr(Named("a")) == "<a>"
    assert len({Named("a"), Named("A")}) == 1


def test_a_light_value_survives_a_copy() -> None:
    assert copy(Point(x=1)) == pickle.loads(pickle.dumps(Point(x=1))) == Point(x=1)  # noqa: S301 - our own


def test_it_is_compared_hashed_shown_and_replaced_by_its_fields() -> None:
    assert Point(x=1) == Point(x=1, y=0) != Point(x=2)
    assert len({Point(x=1), Point(x=1, y=0), replace(Point(x=1), y=3)}) == 2
    assert repr(Point(x=1)) == "Point(x=1, y=0)"


def test_it_has_no_fields_but_those_declared_and_takes_them_by_name() -> None:
    with pytest.raises(AttributeError):
        Point(x=1).z = 2  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        Point(1)  # type: ignore[call-arg]
