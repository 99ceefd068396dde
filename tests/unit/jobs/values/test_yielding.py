"""Large JSON texts are parsed like small ones, with calls of Python code on the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import from_json, to_json
from typing_extensions import TypedDict  # pydantic requires it before Python 3.12

from headgate import App
from headgate.jobs.errors import PayloadInvalid
from headgate.jobs.values import yielding

PADDING = b" " * yielding.LARGE


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(le=9)] = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    friends: list[Animal] = []


Animal = Annotated[Cat | Dog, Field(discriminator="kind")]


@dataclasses.dataclass
class Place:
    row: int
    items: tuple[float, ...] = ()


class Label(TypedDict, total=False):
    text: str
    others: list[Label]


class Everything(BaseModel):
    """Has a schema of each kind that contains others."""

    model_config = {"extra": "allow"}

    type: list[int] = []
    schema_: dict[str, list[date]] = Field({}, alias="items_schema")
    animals: dict[int, Animal] | None = None
    either: list[int | float | str | bool | Place] = []
    names: set[str] | frozenset[int] = frozenset()
    pair: tuple[int, list[str]] | None = None
    places: list[Place] = []
    labels: list[Label] = []
    strict: Annotated[list[int], Field(strict=True)] = []
    within: list[Everything] = []
    anything: Any = None


EVERYTHING = TypeAdapter(Everything)
YIELDING = yielding.Yielding(EVERYTHING)

texts = st.text("ab1\x00é\u2028", max_size=3)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10),
    st.just(10**30),
    st.floats(),
    texts,
    st.sampled_from(["2026-11-22", "5", "cat", "dog"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
animals: st.SearchStrategy[dict[str, Any]] = st.deferred(
    lambda: st.one_of(
        st.fixed_dictionaries({"kind": st.just("cat")}, optional={"lives": scalars}),
        st.fixed_dictionaries(
            {"kind": st.just("dog")}, optional={"friends": st.lists(animals, max_size=2)}
        ),
    )
)
labels: st.SearchStrategy[dict[str, Any]] = st.deferred(
    lambda: st.fixed_dictionaries(
        {}, optional={"text": scalars, "others": st.lists(labels, max_size=2)}
    )
)
places = st.fixed_dictionaries(
    {"row": st.integers() | scalars}, optional={"items": st.lists(st.floats(), max_size=2)}
)


def _likely(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(strategy, strategy, strategy, values)


everything: st.SearchStrategy[dict[str, Any]] = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "type": _likely(st.lists(st.integers(), max_size=3)),
            "items_schema": _likely(st.dictionaries(texts, st.just(["2026-11-22"]), max_size=2)),
            "animals": _likely(st.dictionaries(st.sampled_from("12x"), animals, max_size=2)),
            "either": _likely(st.lists(scalars | places, max_size=4)),
            "names": _likely(st.lists(texts | st.integers(0, 3), max_size=3)),
            "pair": _likely(st.tuples(st.integers(), st.lists(texts, max_size=2))),
            "places": _likely(st.lists(places, max_size=2)),
            "labels": _likely(st.lists(labels, max_size=2)),
            "strict": _likely(st.lists(st.integers() | scalars, max_size=3)),
            "within": _likely(st.lists(everything, max_size=2)),
            "anything": values,
            "unknown": values,
        },
    )
)


def _outcome(read: Callable[[], Any]) -> Any:
    """Return the parsed value with all its types, or the errors of each field."""
    try:
        return repr(read())
    except ValidationError as error:
        return repr(error.errors(include_url=False))


@given(everything | values)
def test_a_large_text_gives_the_results_and_errors_of_a_small_one(value: Any) -> None:
    text = to_json(value)
    assert _outcome(lambda: YIELDING.validate_json(text)) == _outcome(
        lambda: EVERYTHING.validate_json(text)
    )


@pytest.mark.parametrize("value", [[1], {"a": [1.5]}])
def test_choices_of_a_union_are_named_as_ever(value: Any) -> None:
    adapter = TypeAdapter(dict[str, list[str]] | list[str])
    text = to_json(value)
    assert "list[str]" in _outcome(lambda: adapter.validate_json(text))
    large = yielding.Yielding(adapter)
    assert _outcome(lambda: large.validate_json(text)) == _outcome(
        lambda: adapter.validate_json(text)
    )


def _read(read: Callable[..., Any], text: str | bytes, *, allow_inf_nan: bool) -> Any:
    try:
        return repr(read(text, allow_inf_nan=allow_inf_nan))
    except (ValueError, TypeError) as error:
        return type(error)


@given(
    values.map(lambda value: to_json(value, inf_nan_mode="constants"))
    | st.text('{}[]":,1.eE-+ntfaNI\\ud8\ud800 ', max_size=12),
    st.booleans(),
)
@pytest.mark.parametrize("deep", [0, 190, 199, 200, 201])
def test_a_large_text_is_parsed_as_a_small_one(
    deep: int, text: str | bytes, allow_inf_nan: bool
) -> None:
    opening, closing, padding = (
        (b"[" * deep, b"]" * deep, PADDING)
        if isinstance(text, bytes)
        else ("[" * deep, "]" * deep, PADDING.decode())
    )
    large: Any = opening + text + closing + padding  # type: ignore[operator]
    assert _read(yielding.read, large, allow_inf_nan=allow_inf_nan) == _read(
        from_json, large, allow_inf_nan=allow_inf_nan
    )


@pytest.mark.parametrize("text", [b'1,"x":2', b"NaN", b"[" + b"1" * 5_000 + b"]"])
def test_a_large_text_that_is_no_json_is_not_quoted(text: bytes) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - any, but for the one below
        yielding.read(text + PADDING, allow_inf_nan=False)
    assert not isinstance(refused.value, ValidationError)


# --- other threads run meanwhile -----------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The values that were passed through Python."""
    seen: list[Any] = []

    def same(value: Any) -> Any:
        seen.append(value)
        return value

    monkeypatch.setattr(yielding, "same", same)
    return seen


def test_each_item_of_each_collection_is_handed_through_python(calls: list[Any]) -> None:
    validator = yielding.Yielding(TypeAdapter(dict[str, list[Everything]]))
    inner = {"type": [1, 2], "places": [{"row": 1, "items": [1.0, 2.0, 3.0]}], "names": ["a"]}
    validator.validate_json(to_json({"x": [{"within": [inner, inner]}]}))
    of_inner = 2 + (1 + 3) + 1
    assert len(calls) == 1 + 1 + 2 * (1 + of_inner)


def test_each_object_and_number_of_a_large_text_is_handed_through_python(calls: list[Any]) -> None:
    value = {"items": [{"a": {"b": "c"}}] * 10, "vector": [1, 2.5, -3e-10]}
    assert yielding.read(to_json(value) + PADDING) == value
    assert len(calls) == 21 + 3


@pytest.mark.parametrize("size", [100, yielding.LARGE])
def test_a_payload_and_a_result_are_read_by_their_size(size: int, calls: list[Any]) -> None:
    job = App("shop").define("sort", list[Dog], returns=list[Dog])
    dogs = [Dog(kind="dog")] * (size // 20)
    expected = len(dogs) if size == yielding.LARGE else 0

    dumped = job.dump(dogs)
    assert len(calls) == 2 * expected  # read back to check it, and as values
    calls.clear()
    assert job.load(dumped) == dogs
    assert len(calls) == expected
    calls.clear()
    assert job.load_result(dumped) == dogs
    assert len(calls) == expected


def test_a_large_payload_that_does_not_fit_is_refused_as_a_small_one() -> None:
    job = App("shop").define("sort", list[Cat])
    cats = [{"kind": "cat", "lives": 10}]
    with pytest.raises(PayloadInvalid) as small:
        job.load(cats)
    with pytest.raises(PayloadInvalid) as large:
        job.load([*cats, {"kind": "cat", "more": "y" * yielding.LARGE}])
    assert str(small.value) == str(large.value)


# --- written in pieces ---------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, 256, 257, 512, 513])
@given(values)
def test_a_long_list_or_dict_is_written_as_a_short_one(length: int, value: Any) -> None:
    as_list = [value] * length
    as_dict: dict[Any, Any] = dict.fromkeys(range(length), value)
    for each in (as_list, as_dict):
        assert yielding.written(each) == to_json(each)


def test_a_long_list_or_dict_is_written_in_pieces() -> None:
    sizes: list[int] = []

    def write(piece: Any) -> bytes:
        sizes.append(len(piece))
        return to_json(piece)

    yielding.written([1] * 600, write)
    yielding.written(dict.fromkeys(map(str, range(600)), 1), write)
    assert sizes == [256, 256, 88] * 2


Priced = Annotated[list[int], PlainSerializer(lambda value: {"total": sum(value)})]


def test_a_long_payload_that_is_not_written_item_by_item_is_written_whole() -> None:
    job = App("shop").define("sum", Annotated[Priced, BeforeValidator(_items_of)])
    assert job.dump([1] * 1_000) == {"total": 1_000}


def _items_of(value: Any) -> Any:
    return [value["total"]] if isinstance(value, dict) else value


@pytest.mark.parametrize("half", ["\\ud83d", "\\uD83D"])
def test_half_a_character_in_a_large_text_is_refused_as_in_a_small_one(half: str) -> None:
    for text in (f'"{half}"', f'{{"{half}": 1}}', f'["{half}\\ude00"]'):
        assert _read(yielding.read, text + PADDING.decode(), allow_inf_nan=True) == _read(
            from_json, text, allow_inf_nan=True
        )
