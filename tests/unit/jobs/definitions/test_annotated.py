"""The metadata of ``Annotated`` in handlers' signatures: constraints and validators count."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field, PlainSerializer, SecretStr
from pydantic import StringConstraints as Text

from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.handlers.batch_context import BatchContext
from headgate.jobs.definitions.handlers.context import JobContext
from headgate.jobs.definitions.options.batch import Batch
from headgate.jobs.deployment.checks.check import check
from headgate.jobs.errors import PayloadInvalid
from headgate.testing import Harness

NOW = datetime(2026, 1, 1, tzinfo=UTC)

Count = Annotated[int, Field(gt=0)]
Token = Annotated[
    SecretStr, PlainSerializer(lambda secret: secret.get_secret_value(), when_used="json")
]


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


def arrived(annotation: Any, payload: Any) -> Any:
    """Return what reaches a handler whose first parameter is annotated so."""
    got: list[Any] = []

    async def handler(payload: Any) -> None:
        got.append(payload)

    handler.__annotations__["payload"] = annotation
    app = App("shop")
    jobs = Harness(app)
    jobs.client.submit(app.job("take")(handler), payload)
    jobs.drain()
    [payload] = got
    return payload


@pytest.mark.parametrize(
    ("annotation", "payload"),
    [
        (Count, 0),
        (Annotated[str, Text(max_length=3)], "long"),
        (list[Count], [0]),
        (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "cow"}),
    ],
)
def test_a_payload_has_to_keep_the_constraints_of_its_parameter(
    annotation: Any, payload: Any
) -> None:
    with pytest.raises(PayloadInvalid):
        arrived(annotation, payload)


@pytest.mark.parametrize(
    ("annotation", "payload", "got"),
    [
        (Count, 1, 1),
        (Annotated[str, Text(strip_whitespace=True)], " Ada ", "Ada"),
        (Annotated[str, AfterValidator(str.upper)], "ada", "ADA"),
        (Annotated[Cat | Dog, Field(discriminator="kind")], Dog(), Dog()),
        (Annotated[Cat, "of the house"], Cat(), Cat()),
        (Annotated[Cat, JobContext], Cat(), Cat()),
    ],
)
def test_a_payload_arrives_as_the_annotation_of_its_parameter_reads_it(
    annotation: Any, payload: Any, got: Any
) -> None:
    assert arrived(annotation, payload) == got


def test_a_secret_whose_parameter_writes_it_out_reaches_the_handler() -> None:
    assert arrived(Token, SecretStr("hunter2")).get_secret_value() == "hunter2"


@pytest.mark.parametrize(
    "items", [list[Count], Annotated[list[Count], "of a batch"]], ids=["list", "annotated"]
)
def test_each_item_of_a_batch_has_to_keep_the_constraints(items: Any) -> None:
    got: list[int] = []

    async def handler(items: list[int], ctx: Annotated[BatchContext, "all"]) -> None:
        assert len(ctx.jobs) == len(items)
        got.extend(items)

    handler.__annotations__["items"] = items
    app = App("shop")
    job: Any = app.job("take", batch=Batch(size=5))(handler)
    jobs = Harness(app)
    with pytest.raises(PayloadInvalid, match="greater than 0"):
        jobs.client.submit(job, 0)
    jobs.client.submit(job, 1)
    jobs.drain()
    assert got == [1]


@pytest.mark.parametrize(
    "context",
    [
        Annotated[JobContext, "of the job"],
        Annotated[JobContext | None, "of the job"],
        Annotated[JobContext, "of the job"] | None,
    ],
)
def test_a_context_is_known_by_its_type_whatever_its_metadata(context: Any) -> None:
    seen: list[str] = []

    async def with_payload(_number: int, ctx: Any) -> None:
        seen.append(ctx.type)

    async def without(ctx: Any) -> None:
        seen.append(ctx.type)

    app = App("shop")
    jobs = Harness(app)
    for name, handler in (("with", with_payload), ("without", without)):
        handler.__annotations__["ctx"] = context
        app.job(name)(handler)
    jobs.client.submit(app.types["with"], 1)
    jobs.client.submit(app.types["without"])
    jobs.drain()
    assert sorted(seen) == ["with", "without"]


def test_an_event_rules_map_is_checked_against_an_annotated_payload() -> None:
    app = App("shop")

    @app.job("feed")
    async def feed(_cat: Annotated[Cat, "of the house"]) -> None: ...

    app.event_rule("came", pattern={"source": ["x"]}, job=feed, fields={"kin": "$.detail.kin"})
    [fault] = [each for each in check(app, NOW) if each.rule == "event-fields-unfit"]
    assert "unknown ['kin']" in fault.what


def test_a_resource_is_known_by_what_it_yields_whatever_its_metadata() -> None:
    app, got = App("shop"), list[Cat]()

    @app.resource
    async def cat() -> Annotated[AsyncIterator[Cat], "one for all"]:
        yield Cat()

    @app.job("feed")
    async def feed(_count: Count, cat: Cat) -> None:
        got.append(cat)

    jobs = Harness(app)
    jobs.client.submit(feed, 1)
    jobs.drain()
    assert got == [Cat()]
