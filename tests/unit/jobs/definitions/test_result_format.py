"""Results are kept, and read again, as the handler's return type says."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import pytest
from pydantic import (
    AfterValidator,
    Base64Bytes,
    BaseModel,
    Field,
    PlainSerializer,
    SecretStr,
)
from typing_extensions import TypedDict

from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.handlers.batch_context import BatchContext
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.options.batch import Batch
from headgate.jobs.errors import ResultInvalid
from headgate.jobs.handles.handle import JobHandle
from headgate.testing import Harness

Token = Annotated[
    SecretStr, PlainSerializer(lambda secret: secret.get_secret_value(), when_used="json")
]


class UserOut(BaseModel):
    name: str


class UserInDb(UserOut):
    digest: str


class Session(TypedDict):
    token: Token
    seed: Base64Bytes


@dataclasses.dataclass
class Row:
    user_id: Annotated[int, Field(alias="userId")]
    token: Token


class Alien:
    pass


def refuse(_value: object) -> object:
    raise LookupError


def written_by_none(_value: object) -> str:
    raise LookupError


def handled(annotation: Any, value: Any, **options: Any) -> JobHandle[Any]:
    """Return the handle of a job that has run, whose handler returns the value."""

    async def handler() -> Any:
        return value() if callable(value) else value

    handler.__annotations__["return"] = annotation
    app = App("shop")
    job = app.job("make", **options)(handler)
    jobs = Harness(app)
    handle = jobs.client.submit(job)
    jobs.drain()
    return handle


FITTING = [
    (Token, SecretStr("hunter2"), "hunter2"),
    (Base64Bytes, b"\xff\x00", "/wA="),
    (
        Session,
        {"token": SecretStr("hunter2"), "seed": b"\xff"},
        {"token": "hunter2", "seed": "/w=="},
    ),
    (Row, Row(1, SecretStr("hunter2")), {"userId": 1, "token": "hunter2"}),
    (list[Base64Bytes], [b"\xff"] * 300, ["/w=="] * 300),
    (dict[str, Base64Bytes], {str(n): b"\xff" for n in range(300)}, None),
    (Sequence[Token] | None, None, None),
]
"""Annotations, values that fit them, and what is kept."""


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize(("annotation", "value", "kept"), FITTING)
def test_a_result_is_written_by_the_annotation_that_reads_it(
    annotation: Any, value: Any, kept: Any, once: bool
) -> None:
    handle = handled(annotation, value, once=once)
    assert handle.result() == value
    if kept is not None:
        assert handle.history().result == kept


def test_a_result_of_a_subclass_is_kept_without_its_further_fields() -> None:
    one = UserInDb(name="Ada", digest="secret")
    assert handled(UserOut, one).history().result == {"name": "Ada"}
    assert handled(list[UserOut], [one]).history().result == [{"name": "Ada"}]


def test_a_large_result_is_kept_without_the_fields_of_a_subclass() -> None:
    many = [UserInDb(name="Ada", digest="secret")] * 10_000
    assert handled(list[UserOut], many).history().result == [{"name": "Ada"}] * 10_000


@pytest.mark.parametrize(
    ("annotation", "value", "kept"),
    [
        (UserOut, {"name": "Ada", "digest": "secret"}, {"name": "Ada"}),
        (list[UserOut], ({"name": "Ada", "digest": "secret"},), [{"name": "Ada"}]),
        (set[int], [1, 1], [1]),
        (int, "5", 5),
        (list[int], lambda: (n for n in (1, 2)), [1, 2]),
        (Iterable[int], lambda: (n for n in (1, 2)), [1, 2]),
        (dict[str, Any], lambda: {"ids": (n for n in (1, 2))}, {"ids": [1, 2]}),
    ],
)
def test_a_result_of_another_type_is_kept_as_the_annotation_reads_it(
    annotation: Any, value: Any, kept: Any
) -> None:
    assert handled(annotation, value).history().result == kept


@pytest.mark.parametrize(
    ("annotation", "value", "kept"),
    [
        (UserOut, {"surname": "Lovelace"}, {"surname": "Lovelace"}),
        (int, "many", "many"),
        (None, 5, 5),
        (Annotated[int, AfterValidator(refuse)], "5", "5"),
        (Annotated[int, PlainSerializer(written_by_none)], 5, 5),
    ],
)
def test_a_finished_job_keeps_a_result_that_does_not_fit_its_annotation(
    annotation: Any, value: Any, kept: Any
) -> None:
    assert handled(annotation, value).history().result == kept


def test_a_result_that_does_not_fit_is_told_where_it_is_read() -> None:
    with pytest.raises(ResultInvalid, match="its result doesn't fit"):
        handled(UserOut, {"surname": "Lovelace"}).result()


def test_no_item_of_a_generator_is_lost_without_a_word() -> None:
    handle = handled(dict[str, list[int]], lambda: {"ids": (n for n in (1, 2))})
    assert "has a generator where" in handle.history().attempts[-1].error_message


def test_a_nan_is_never_read_as_none() -> None:
    with pytest.raises(ResultInvalid, match="a number is infinite or NaN"):
        handled(dict[str, float | None], {"ratio": math.nan}).result()


def test_what_no_annotation_declares_is_written_as_what_it_is() -> None:
    one = UserInDb(name="Ada", digest="secret")
    assert handled(Any, one).history().result == one.model_dump()


def test_a_result_that_nobody_keeps_is_not_written() -> None:
    assert handled(Any, Alien(), records="failures", keep=None).id
    app = App("shop", records="failures")

    @app.job("odd")
    def odd() -> Annotated[Any, PlainSerializer(written_by_none)]:
        return Alien()

    jobs = Harness(app)
    jobs.client.submit(odd)
    jobs.drain()
    assert len(jobs.completed(odd)) == 1


def test_a_declared_return_type_counts_as_an_annotation() -> None:
    app = App("shop")
    job: JobType[None, Any] = app.define("make", returns=UserOut)

    @job.handler
    async def _() -> Any:
        return UserInDb(name="Ada", digest="secret")

    jobs = Harness(app)
    handle = jobs.client.submit(job)
    jobs.drain()
    assert handle.history().result == {"name": "Ada"}


def in_a_batch(annotation: Any, value: Any) -> JobHandle[Any]:
    async def handler(items: list[int], _ctx: BatchContext) -> Any:
        return [value for _ in items]

    handler.__annotations__["return"] = annotation
    app = App("shop")
    job = app.job("make", batch=Batch(size=5))(handler)
    jobs = Harness(app)
    handle: JobHandle[Any] = jobs.client.submit(job, 1)
    jobs.drain()
    return handle


@pytest.mark.parametrize(
    "annotation",
    [
        list[Token],
        list[Token | Exception],
        list[Token] | None,
        Annotated[list[Token], "of each"],
        list[Annotated[Token | Exception, Field(description="of one")]],
    ],
)
def test_a_batchs_results_are_written_one_by_one_by_their_annotation(annotation: Any) -> None:
    assert in_a_batch(annotation, SecretStr("hunter2")).history().result == "hunter2"
