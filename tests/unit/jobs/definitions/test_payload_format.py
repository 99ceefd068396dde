"""Payloads as JSON: a handler gets what was submitted, or the submission is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import (
    AliasChoices,
    AliasGenerator,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    RootModel,
    Secret,
    SecretBytes,
    SecretStr,
    computed_field,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from headgate.errors import PayloadInvalid
from headgate.jobs.definitions.payload_format import PayloadFormat

T = TypeVar("T")

Token = Annotated[
    SecretStr, PlainSerializer(lambda secret: secret.get_secret_value(), when_used="json")
]


class ReadAs(BaseModel):
    x: int = Field(0, validation_alias="X")


class WrittenAs(BaseModel):
    x: int = Field(0, serialization_alias="X")


class ReadWithin(BaseModel):
    x: int = Field(0, validation_alias=AliasPath("X", 0))


class ReadAsOneOf(BaseModel):
    x: int = Field(0, validation_alias=AliasChoices("X", AliasPath("more", "x")))


class WrittenInCamels(BaseModel):
    model_config = ConfigDict(alias_generator=AliasGenerator(serialization_alias=str.upper))

    x: int = 0


class ReadByName(BaseModel):
    model_config = ConfigDict(validate_by_alias=False, validate_by_name=True)

    x: int = Field(0, alias="X")


class Nested(BaseModel):
    parts: dict[str, list[ReadAs]]


class Kept(BaseModel):
    model_config = ConfigDict(extra="allow")

    x: int = Field(0, serialization_alias="X")


class Typed(TypedDict, total=False):
    x: Annotated[int, Field(serialization_alias="X")]


@pydantic_dataclass
class Data:
    x: int = Field(0, validation_alias="X")


@dataclasses.dataclass
class Plain:
    x: Annotated[int, Field(serialization_alias="X")] = 0


class Page(BaseModel, Generic[T]):
    items: list[T]


class Link(BaseModel):
    x: int = Field(0, serialization_alias="X")
    next: Link | None = None


UNREAD: dict[str, tuple[Any, Any, str]] = {
    "validation_alias": (ReadAs, ReadAs(X=5), "x"),
    "serialization_alias": (WrittenAs, WrittenAs(x=5), "x"),
    "a path": (ReadWithin, ReadWithin.model_validate({"X": [5]}), "x"),
    "choices": (ReadAsOneOf, ReadAsOneOf.model_validate({"X": 5}), "x"),
    "an alias generator": (WrittenInCamels, WrittenInCamels(x=5), "x"),
    "by name alone": (ReadByName, ReadByName(x=5), "x"),
    "nested": (Nested, Nested(parts={"a": [ReadAs(), ReadAs(X=5)]}), r"parts\.a\.1\.x"),
    "with extra fields": (Kept, Kept(x=5), "x"),
    "a typed dict": (Typed, {"x": 5}, "x"),
    "a pydantic dataclass": (Data, Data(X=5), "x"),  # type: ignore[call-arg]  # mypy reads no alias there
    "a dataclass": (Plain, Plain(x=5), "x"),
    "a generic model": (Page[ReadAs], Page[ReadAs](items=[ReadAs(X=5)]), r"items\.0\.x"),
    "a recursive model": (Link, Link(next=Link(x=5)), r"next\.x"),
    "a long list": (list[ReadAs], [ReadAs(X=5)] * 3_000, r"0\.x"),
    "one of a union": (str | ReadAs, ReadAs(X=5), "x"),
}


@pytest.mark.parametrize(("model", "given", "path"), UNREAD.values(), ids=UNREAD)
def test_a_field_that_is_not_read_as_it_is_written_is_refused(
    model: Any, given: Any, path: str
) -> None:
    with pytest.raises(PayloadInvalid, match=rf"'note' is not valid: {path}: pydantic writes"):
        PayloadFormat("note", model).dump(given)


class Login(BaseModel):
    token: SecretStr


class Bytes(BaseModel):
    key: SecretBytes = SecretBytes(b"")


class Generically(BaseModel):
    pin: Secret[str]


MASKED: dict[str, tuple[Any, Any, str]] = {
    "SecretStr": (Login, Login(token=SecretStr("hunter2")), "token"),
    "SecretBytes": (Bytes, Bytes(key=SecretBytes(b"hunter2")), "key"),
    "Secret": (Generically, Generically(pin=Secret("hunter2")), "pin"),
    "alone": (RootModel[SecretStr], RootModel[SecretStr](SecretStr("hunter2")), "payload"),
    "in a map": (dict[str, SecretStr], {"a": SecretStr("hunter2")}, "a"),
    "where anything may be": (dict[str, Any], {"a": [Login(token=SecretStr("x"))]}, r"a\.0\.token"),
}


@pytest.mark.parametrize(("model", "given", "path"), MASKED.values(), ids=MASKED)
def test_a_secret_that_would_arrive_as_asterisks_is_refused(
    model: Any, given: Any, path: str
) -> None:
    with pytest.raises(PayloadInvalid, match=rf"not valid: {path}: .*asterisks") as raised:
        PayloadFormat("login", model).dump(given)
    assert "hunter2" not in str(raised.value)


class Colour(Enum):
    RED = "red"


class Photo(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64")

    data: bytes
    more: dict[str, list[bytes | None]] = Field(default_factory=dict)


class ReadablePhoto(Photo):
    model_config = ConfigDict(val_json_bytes="base64")


class Cat(BaseModel):
    name: str = ""


class Dog(BaseModel):
    name: str = ""


class Basket(BaseModel):
    pet: Cat | Dog
    more: list[Cat | Dog] = Field(default_factory=list)


class Boxed(TypedDict, total=False):
    pet: Cat | Dog


@dataclasses.dataclass
class Counted:
    given: int
    counted: int = dataclasses.field(init=False, default=0)


def counted() -> Counted:
    one = Counted(1)
    one.counted = 5
    return one


PNG = b"\x89PNG"
BERLIN = ZoneInfo("Europe/Berlin")

CHANGED: dict[str, tuple[Any, Any, str]] = {
    "bytes": (Photo, Photo(data=PNG), "data: pydantic doesn't read bytes as it writes them"),
    "nested bytes": (list[Photo], [Photo(data=b"", more={"a": [PNG]})], r"0\.more\.a\.0: pydantic"),
    "a model": (Basket, Basket(pet=Dog()), "pet: a Dog would reach the handler as a Cat"),
    "a model in a list": (Basket, Basket(pet=Cat(), more=[Dog()]), r"more\.0: a Dog"),
    "a model of a typed dict": (Boxed, {"pet": Dog()}, "pet: a Dog"),
    "a model for Any": (dict[str, Any], {"a": Cat()}, "a: a Cat would .* as a dict"),
    "a text for bytes": (bytes | str, "text", "payload: a str would .* as a bytes"),
    "a text for a UUID": (UUID | str, str(UUID(int=7)), "payload: a str would .* as a UUID"),
    "an enum's value": (Colour | str, Colour.RED, "payload: a Colour would"),
    "a set": (list[int] | set[int], {1}, "payload: a set would .* as a list"),
    "a date": (Any, {"at": datetime(2026, 1, 1, tzinfo=UTC)}, "at: a datetime would .* as a str"),
    "a decimal": (dict[str, Any], {"a": [Decimal(1)]}, r"a\.0: a Decimal"),
    "a number as key": (Any, {1: 2}, "1: an int would .* as a str"),
    "None as key": (dict[str | None, int], {None: 1}, "None: a NoneType would"),
    "a field of no init": (Counted, counted(), "counted: pydantic reads no field with init=False"),
}


@pytest.mark.parametrize(("model", "given", "fault"), CHANGED.values(), ids=CHANGED)
def test_a_value_that_would_arrive_as_another_is_refused(
    model: Any, given: Any, fault: str
) -> None:
    with pytest.raises(PayloadInvalid, match=f"'note' is not valid: {fault}") as raised:
        PayloadFormat("note", model).dump(given)
    assert "PNG" not in str(raised.value)


def test_bytes_that_are_written_and_read_differently_are_a_loss() -> None:
    [loss, more] = PayloadFormat("note", Photo).losses
    assert (loss.place, more.place, loss.is_secret) == ("Photo.data", "Photo.more", False)
    assert loss.instead.endswith("ConfigDict(val_json_bytes='base64')")
    assert PayloadFormat("note", ReadablePhoto).losses == []


class Normalized(BaseModel):
    """Validators that change what they are given, and once more at each reading."""

    name: str
    visits: int = 0

    @field_validator("name", mode="before")
    @classmethod
    def _stripped(cls, name: str) -> str:
        return name.strip().lower()

    @field_validator("visits")
    @classmethod
    def _counted(cls, visits: int) -> int:
        return visits + 1


class Renaming(BaseModel):
    """An alias that is not read, and a validator that reads it all the same."""

    x: int = Field(0, serialization_alias="X")

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, given: Any) -> Any:
        return {name.lower(): value for name, value in given.items()}


class Whole(BaseModel):
    """A serializer of its own."""

    x: int = Field(0, validation_alias="X")

    @model_serializer
    def _written(self) -> dict[str, int]:
        return {"X": self.x}


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    x: int = Field(0, alias="X")
    y: int = Field(0, validation_alias="Y")
    z: int = Field(0, validation_alias=AliasChoices("Z", "z"))
    one_of: Literal["fixed"] = Field("fixed", serialization_alias="oneOf")


@dataclasses.dataclass(eq=False)
class Incomparable:
    x: float
    colour: Colour = Colour.RED


class Rich(BaseModel):
    at: datetime
    within: timedelta
    total: Decimal
    ratio: float
    id: UUID
    raw: bytes
    tags: set[str]
    either: int | str | list[Incomparable]
    pair: tuple[int, str]

    _hits: int = PrivateAttr(0)

    @computed_field  # type: ignore[prop-decorator]  # as pydantic's documentation writes it
    @property
    def now(self) -> datetime:
        return datetime.now(UTC)


class Secrets(BaseModel):
    token: Token
    pin: SecretStr = SecretStr("")
    password: SecretStr
    shown: str = "**********"

    @field_serializer("password", when_used="json")
    def _revealed(self, password: SecretStr) -> str:
        return password.get_secret_value()


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Excluding(BaseModel):
    x: int = 0
    cache: int = Field(1, exclude=True)


class Tabby(Cat):
    stripes: int = 0


class Described(BaseModel):
    extra: Any

    @field_serializer("extra")
    def _described(self, extra: Any) -> str:
        return extra if isinstance(extra, str) else str(len(extra))


class Caching(BaseModel):
    x: int | str = 0
    cache: Any = Field(None, exclude=True)


class Marked(BaseModel):
    either: int | str = 0

    _seen: Any = PrivateAttr(None)


def marked() -> Marked:
    one = Marked(either="5")
    one._seen = object()
    return one


RICH = Rich(
    at=datetime(2026, 1, 1, tzinfo=UTC),
    within=timedelta(microseconds=1),
    total=Decimal("0.10"),
    ratio=0.1 + 0.2,
    id=UUID(int=7),
    raw=b"bytes",
    tags={str(number) for number in range(100)},
    either="5",
    pair=(1, "a"),
)

SECRETS = Secrets(token=SecretStr("hunter2"), password=SecretStr("swordfish"))


def _same(back: Any, given: Any) -> bool:
    return bool(back == given)


ARRIVING: dict[str, tuple[Any, Any, Callable[[Any, Any], bool]]] = {
    "normalized": (
        Normalized,
        Normalized(name=" Ada "),
        lambda back, given: back.name == given.name and back.visits == given.visits + 1,
    ),
    "renamed by a validator": (Renaming, Renaming(x=5), _same),
    "its own serializer": (Whole, Whole(X=5), _same),
    "aliases that are read": (Aliased, Aliased(x=1, y=2, z=3), _same),
    "an alias's default": (ReadAs, ReadAs(), _same),
    "an optional part with an alias": (Link, Link(), _same),
    "types of all kinds": (Rich, RICH, _same),
    "extra fields": (Open, Open.model_validate({"more": [1]}), _same),
    "a class without __eq__": (
        Incomparable,
        Incomparable(x=0.1),
        lambda back, given: vars(back) == vars(given),
    ),
    "a generator": (Iterable[int], (n for n in (1, 2)), lambda back, _given: [*back] == [1, 2]),
    "secrets that are written out": (Secrets, SECRETS, _same),
    "bytes that are read as they are written": (ReadablePhoto, ReadablePhoto(data=PNG), _same),
    "a subclass of one of a union": (
        Basket,
        Basket(pet=Tabby(name="Tom", stripes=3)),
        lambda back, _given: back == Basket(pet=Cat(name="Tom")),
    ),
    "numbers of a union": (list[int | float | str], [1, 1.5, "1"], _same),
    "a tuple for Any": (Any, (1, (2,)), lambda back, _given: back == [1, [2]]),
    "JSON for Any": (Any, {"a": [1, None, True, {"b": 1.5}]}, _same),
    "a serializer for Any": (Described, Described(extra={1, 2}), lambda back, _: back.extra == "2"),
    "a left out Any": (
        Caching,
        Caching(cache=object()),
        lambda back, _given: back == Caching(),
    ),
    "a private attribute beside a union": (
        Marked,
        marked(),
        lambda back, given: back.either == given.either,
    ),
    "an hour that comes twice": (
        dict[str, datetime | int],
        {"at": datetime(2025, 10, 26, 2, 30, fold=1, tzinfo=BERLIN)},
        lambda back, given: back["at"].timestamp() == given["at"].timestamp(),
    ),
    "asterisks": (dict[str, str], {"a": "**********"}, _same),
    "a field that is left out": (
        Excluding,
        Excluding(x=5, cache=2),
        lambda back, _given: back == Excluding(x=5, cache=1),
    ),
}


@pytest.mark.parametrize(("model", "given", "is_kept"), ARRIVING.values(), ids=ARRIVING)
def test_what_a_handler_can_get_is_not_refused(
    model: Any, given: Any, is_kept: Callable[[Any, Any], bool]
) -> None:
    payloads = PayloadFormat("note", model)
    assert is_kept(payloads.load(payloads.dump(given)), given)


def test_a_field_that_is_read_as_it_is_written_is_no_loss() -> None:
    assert PayloadFormat("note", Rich).losses == []
    assert PayloadFormat("note", None).losses == []
