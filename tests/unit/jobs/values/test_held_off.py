"""The garbage collector runs before and after a large value is made, and not meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import TypeAdapter

from headgate.jobs.values.collector import held_off
from headgate.jobs.values.yielding import LARGE, Yielding, read


@pytest.fixture(autouse=True)
def pace_of_python() -> Iterator[None]:
    """Let the collector run as often as by Python's default; it seldom does in tests."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


@contextmanager
def collections() -> Iterator[list[int]]:
    """Yield the generation of each collection within the block, which begins just after one.

    Otherwise the few objects that are made before the collector is held off may be those at which
    the next collection is due.
    """
    generations: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            generations.append(info["generation"])

    gc.collect()
    gc.callbacks.append(note)
    try:
        yield generations
    finally:
        gc.callbacks.remove(note)


OBJECTS = b"[" + b",".join([b'{"tags": []}'] * (LARGE // 12)) + b"]"


def test_reading_a_large_text_runs_no_collection() -> None:
    with collections() as generations:
        read(OBJECTS)
    assert generations == []


def test_validating_a_large_text_runs_no_collection() -> None:
    adapter = Yielding(TypeAdapter(list[dict[str, list[int]]]))
    with collections() as generations:
        adapter.validate_json(OBJECTS)
    assert generations == []


def test_what_has_been_made_counts_as_old_so_that_small_collections_leave_it_alone() -> None:
    with held_off():
        made = [[number] for number in range(10_000)]
    assert gc.get_count()[0] < len(made)
    assert gc.isenabled()


def test_the_collector_waits_for_the_last_of_several_values() -> None:
    with held_off():
        with held_off():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_lets_the_collector_run_again() -> None:
    with pytest.raises(ValueError, match="no"), held_off():
        raise ValueError("no")
    assert gc.isenabled()


def test_a_process_that_has_turned_the_collector_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with held_off():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_a_process_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with held_off():
            pass
        assert gc.get_freeze_count() >= before > 0
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("text", [OBJECTS, b'{"a": 1}', b"[1e400, NaN]", b'"x"'])
def test_a_payload_of_any_kind_is_read_as_its_adapter_reads_it(text: bytes) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Any)
    assert repr(Yielding(adapter).validate_json(text)) == repr(adapter.validate_json(text))


def test_a_payload_of_any_kind_has_its_adapters_error() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Any)
    broken = OBJECTS[:-1]
    with pytest.raises(ValueError, match="EOF") as raised:
        Yielding(adapter).validate_json(broken)
    with pytest.raises(type(raised.value)) as expected:
        adapter.validate_json(broken)
    assert str(raised.value) == str(expected.value)
