from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, Union
from unittest.mock import Mock

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict  # pydantic uses typing's only from Python 3.12 on

from headgate import App, JobContext, JobType, Priority, cron
from headgate.jobs.definitions.handlers.context import Host
from headgate.jobs.definitions.options.job_options import LONGEST_TIMEOUT
from headgate.jobs.definitions.policies import timeout_of
from headgate.jobs.errors import (
    ConfigurationError,
    DuplicateJobType,
    HandlerMissing,
    PayloadInvalid,
)

if TYPE_CHECKING:
    from decimal import Decimal


class Line(BaseModel):
    sku: str
    count: Annotated[int, Field(gt=0)]


class Order(BaseModel):
    id: int
    day: date = date(2026, 1, 2)
    lines: list[Line] = []


class Parcel(TypedDict):
    weight: int


class Unrelated(BaseModel):
    name: str


ORDER = Order(id=7, lines=[Line(sku="ä-1", count=2)])


@pytest.fixture
def app() -> App:
    return App("shop", stage="test")


@pytest.fixture
def job(app: App) -> JobType[Order, None]:
    return app.define("ship-order", Order)


# --- payloads ------------------------------------------------------------------------------------


def test_a_payload_is_read_back_as_it_was_dumped(job: JobType[Order, None]) -> None:
    dumped = job.dump(ORDER)
    assert dumped == {"id": 7, "day": "2026-01-02", "lines": [{"sku": "ä-1", "count": 2}]}
    assert job.load(dumped) == ORDER


@pytest.mark.parametrize(
    ("declared", "payload"),
    [
        (Parcel, {"weight": 3}),
        (Union[Order, Parcel], ORDER),  # noqa: UP007 - as users write it, too
        (Union[Order, Parcel], {"weight": 3}),  # noqa: UP007
        (Order | None, None),
        (list[int], [1, 2]),
    ],
)
def test_a_payload_may_be_of_any_type_that_pydantic_reads(
    app: App, declared: Any, payload: Any
) -> None:
    job = app.define("any", declared)
    assert job.load(job.dump(payload)) == payload


def test_a_result_may_be_of_any_type_that_pydantic_reads(app: App) -> None:
    job = app.define("any", Order, returns=int | None)
    assert [job.load_result(value) for value in (3, None)] == [3, None]
    with pytest.raises(ValueError, match="its result doesn't fit"):
        job.load_result("three")


class Aliased(BaseModel):
    order_id: int = Field(alias="orderId")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    at: datetime
    tags: frozenset[str]


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (Aliased, Aliased(orderId=3)),
        (Strict, Strict(at=datetime(2026, 1, 1, tzinfo=UTC), tags=frozenset({"a"}))),
        (Point, Point(3)),
        (dict[str, list[int]], {"a": [1]}),
        (str, "text"),
        (type(None), None),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_anything_that_pydantic_reads_can_be_a_payload(
    app: App, kind: type[Any], payload: Any
) -> None:
    job = app.define("any", kind)
    assert job.load(job.dump(payload)) == payload


def _empty() -> Any:
    model: Any = Order  # like code without a type checker
    return model.model_construct()


def _constructed() -> Any:
    return Order.model_construct(id=1, lines=[Line.model_construct(sku="a", count=-5)])


def _mutated() -> Any:
    order = Order(id=1, lines=[Line(sku="a", count=1)])
    order.lines[0].count = -5
    return order


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        ({"lines": []}, "id: Field required"),
        ({"id": "x"}, "id: Input should be a valid integer"),
        (Unrelated(name="x"), "payload: Input should be a valid dictionary or instance of Order"),
        (None, "payload: Input should be a valid dictionary"),
        (_empty(), "id: Field required"),
        (_constructed(), r"lines\.0\.count: Input should be greater than 0"),
        (_mutated(), r"lines\.0\.count: Input should be greater than 0"),
    ],
    ids=["dict", "field", "other model", "none", "constructed empty", "constructed", "mutated"],
)
def test_a_payload_that_does_not_validate_is_refused_with_type_and_field(
    job: JobType[Order, None], payload: Any, fault: str
) -> None:
    with pytest.raises(PayloadInvalid, match=f"the payload of 'ship-order' is not valid: {fault}"):
        job.dump(payload)


def test_every_field_at_fault_is_named(job: JobType[Order, None]) -> None:
    with pytest.raises(PayloadInvalid, match=r"id: .*; lines\.0\.sku: .*; lines\.0\.count: "):
        job.load({"id": None, "lines": [{}]})


class Hiding(BaseModel):
    shown: int
    hidden: int = Field(exclude=True)


def test_a_payload_that_does_not_survive_json_is_refused(app: App) -> None:
    job = app.define("hide", Hiding)
    with pytest.raises(
        PayloadInvalid, match="the payload of 'hide' is not valid: hidden: Field re"
    ):
        job.dump(Hiding(shown=1, hidden=2))


class Measured(BaseModel):
    value: float
    note: Any = None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_json_lacks_is_refused(app: App, value: float) -> None:
    job = app.define("measure", Measured)
    with pytest.raises(PayloadInvalid, match="the payload of 'measure' is not valid: value: "):
        job.dump(Measured(value=value))


class Constants(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="constants")

    value: float


def test_a_number_that_json_lacks_is_refused_even_if_the_model_writes_it(app: App) -> None:
    job = app.define("measure", Constants)
    with pytest.raises(PayloadInvalid, match="has a NaN or an infinity in it"):
        job.dump(Constants(value=math.nan))


class Sampled(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    anything: Any = None
    mean: float | None = None
    by_name: dict[str, float | None] = {}
    shown: Annotated[Any, Field(alias="Shown")] = None
    group: frozenset[float | None] = frozenset()


@dataclass
class Reading:
    x: float | None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("given", "place"),
    [
        (lambda number: {"anything": number}, "anything"),
        (lambda number: {"anything": [1, {"deep": (None, number)}]}, "anything.1.deep.1"),
        (lambda number: {"anything": Reading(number)}, "anything.x"),
        (lambda number: {"anything": Sampled(mean=number)}, "anything.mean"),
        (lambda number: {"mean": number}, "mean"),
        (lambda number: {"by_name": {"a": None, "b": number}}, "by_name.b"),
        (lambda number: {"Shown": {"a": number}}, "Shown.a"),
        (lambda number: {"group": frozenset({number})}, "group.0"),
    ],
)
def test_a_number_that_would_be_read_back_as_none_is_refused_by_its_place(
    app: App, number: float, given: Callable[[float], dict[str, Any]], place: str
) -> None:
    job = app.define("sample", Sampled)
    with pytest.raises(PayloadInvalid, match=f"'sample' is not valid: {place}: JSON has neither"):
        job.dump(Sampled(**given(number)))


@pytest.mark.parametrize("payload", [math.nan, {"a": math.inf}, [None, -math.inf]])
def test_a_payload_of_any_type_may_not_have_a_number_that_json_lacks(
    app: App, payload: Any
) -> None:
    job: JobType[Any, None] = app.define("anything", Any)
    with pytest.raises(PayloadInvalid, match=r"'anything' is not valid: .*JSON has neither"):
        job.dump(payload)


class Written(BaseModel):
    """Defines its own serialisation of such a number."""

    value: float
    note: None = None

    model_config = ConfigDict(ser_json_inf_nan="strings")


def test_a_number_that_its_model_writes_as_text_is_read_back_as_it_was(app: App) -> None:
    job = app.define("written", Written)
    dumped = job.dump(Written(value=math.inf))
    assert dumped == {"value": "Infinity", "note": None}
    assert job.load(dumped) == Written(value=math.inf)


@pytest.mark.parametrize("value", [object(), "\ud800"], ids=["object", "lone surrogate"])
def test_a_value_that_json_can_not_hold_is_refused(app: App, value: object) -> None:
    job = app.define("measure", Measured)
    with pytest.raises(PayloadInvalid, match="the payload of 'measure' is not valid"):
        job.dump(Measured(value=1, note=value))


@pytest.mark.parametrize(
    "payload",
    [
        {"id": "the-secret"},
        Order.model_construct(id="the-secret"),  # type: ignore[arg-type]  # the point
        Measured.model_construct(value="the-secret"),  # type: ignore[arg-type]  # the point
    ],
)
def test_a_refused_payload_s_values_stay_out_of_the_error(
    job: JobType[Order, None], payload: Any
) -> None:
    with pytest.raises(PayloadInvalid) as raised:
        job.dump(payload)
    assert "the-secret" not in str(raised.value)


class Unfinished(BaseModel):
    price: Decimal


def test_an_unresolvable_payload_type_is_a_configuration_error(app: App) -> None:
    job = app.define("price", Unfinished)
    with pytest.raises(
        ConfigurationError, match=r"'price': pydantic can't read payloads of .*Unfin"
    ):
        job.load({})


# --- handlers ------------------------------------------------------------------------------------

CONTEXT = JobContext(
    id="id",
    type="ship-order",
    queue="jobs",
    attempt=1,
    max_attempts=3,
    tenant=None,
    deadline=datetime(2026, 1, 1, tzinfo=UTC),
    _host=Mock(spec=Host),
)


def test_a_handler_takes_the_payload_and_if_it_wants_it_the_context(app: App) -> None:
    @app.job("plain")
    def plain(order: Order) -> int:
        return order.id

    @app.job("with-context")
    def with_context(order: Order, ctx: JobContext) -> tuple[int, int]:
        return order.id, ctx.attempt

    assert plain.require_handler().call(ORDER, CONTEXT) == 7
    assert with_context.require_handler().call(ORDER, CONTEXT) == (7, 1)
    assert not plain.require_handler().is_async


async def test_async_handlers_are_distinguished_from_synchronous_ones(app: App) -> None:
    @app.job("async")
    async def asynchronous(order: Order) -> int:
        return order.id

    handler = asynchronous.require_handler()
    assert handler.is_async
    assert await handler.call(ORDER, CONTEXT) == 7


def test_a_method_can_be_a_handler(app: App) -> None:
    class Shipping:
        def ship(self, order: Order) -> int:
            return order.id

    declared: JobType[Order, int] = app.job("ship")(Shipping().ship)
    assert declared.payload is Order
    assert declared.require_handler().call(ORDER, CONTEXT) == 7


def test_the_payload_s_type_is_the_first_parameter_s_annotation(app: App) -> None:
    @app.job("annotated")
    def annotated(order: Order, ctx: JobContext) -> None: ...

    assert annotated.payload is Order


def no_parameter() -> None: ...
def unannotated(order) -> None: ...  # type: ignore[no-untyped-def]  # the point
def three(order: Order, ctx: JobContext, other: int) -> None: ...
def by_position(order: Order, ctx: JobContext, /) -> None: ...
def generator(order: Order) -> Iterator[int]:
    yield order.id


async def async_generator(order: Order) -> AsyncIterator[int]:
    yield order.id


def type_checking_only(price: Decimal) -> None: ...
def no_such_attribute(order: math.nope) -> None: ...  # type: ignore[name-defined]  # the point


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (unannotated, "must annotate its first parameter: with the payload's type, or with Job"),
        (three, "a parameter 'other' that nothing can be passed to"),
        (by_position, r"must take the payload first, .*; its signature is \("),
        (generator, "is a generator: calling it would run none of it"),
        (async_generator, "is a generator: calling it would run none of it"),
        (type_checking_only, "can't be resolved: name 'Decimal' is not defined.*TYPE_CHECKING"),
        (no_such_attribute, "can't be resolved: module 'math' has no attribute 'nope'"),
        (partial(three, other=1), "must be a function or a method, got functools.partial"),
        (Order, "must be a function or a method"),
    ],
)
def test_an_invalid_handler_is_refused_with_name_type_and_reason(
    app: App, function: Callable[..., Any], fault: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"'ship-order' ?.*{fault}") as raised:
        app.job("ship-order")(function)
    if name := getattr(function, "__qualname__", None):
        assert name in str(raised.value)


@pytest.mark.parametrize("function", [no_parameter, three, by_position, generator])
def test_what_is_attached_to_a_contract_is_checked_as_well(
    job: JobType[Order, None], function: Callable[..., Any]
) -> None:
    with pytest.raises(ConfigurationError, match="'ship-order'"):
        job.handler(function)
    assert not job.has_handler


def by_position_alone(ctx: JobContext, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (by_position_alone, r"must take no payload, and what it needs by named parameters"),
        (three, "a parameter 'other' that nothing can be passed to"),
        (generator, "is a generator"),
    ],
)
def test_what_is_attached_to_a_contract_without_payload_is_checked_as_well(
    app: App, function: Callable[..., Any], fault: str
) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        app.define("nightly").handler(function)


def test_an_annotation_from_inside_a_function_is_refused_with_where_to_put_it(app: App) -> None:
    class Local(BaseModel): ...

    def handle(payload: Local) -> None: ...

    with pytest.raises(
        ConfigurationError, match=r"'Local' is not defined. Define or import it at m"
    ):
        app.job("local")(handle)


async def test_a_handler_that_returns_an_awaitable_has_failed(
    job: JobType[Order, None],
) -> None:
    ran = []

    def traced(function: Callable[[Order], Awaitable[None]]) -> Callable[[Order], Awaitable[None]]:
        @wraps(function)
        def wrapper(order: Order) -> Awaitable[None]:
            return function(order)

        return wrapper

    @job.handler
    @traced
    async def ship(order: Order) -> None:
        ran.append(order)

    with pytest.raises(ConfigurationError, match="ship returned an awaitable without being"):
        job.require_handler().call(ORDER, CONTEXT)
    assert not ran


def test_a_second_handler_is_refused_with_the_names_of_both(job: JobType[Order, None]) -> None:
    @job.handler
    def first(order: Order) -> None: ...

    def second(order: Order) -> None: ...

    with pytest.raises(
        ConfigurationError, match=r"'ship-order' has two handlers: .*first and .*sec"
    ):
        job.handler(second)


def test_a_type_without_its_handler_says_how_to_attach_one(job: JobType[Order, None]) -> None:
    with pytest.raises(HandlerMissing, match=r"'ship-order' has no handler.*App\(handlers="):
        job.require_handler()


def test_a_refused_declaration_leaves_no_half_of_a_type(app: App) -> None:
    with pytest.raises(ConfigurationError):
        app.job("ship-order")(generator)
    app.define("ship-order", Order)
    with pytest.raises(DuplicateJobType):
        app.define("ship-order", Order)


# --- numbers -------------------------------------------------------------------------------------


def test_a_type_without_a_timeout_has_the_apps_and_one_with_none_is_endless(
    app: App, job: JobType[Order, None]
) -> None:
    endless = app.define("endless", Order, timeout=None)
    assert job.timeout is None
    assert timeout_of(app, job) == timedelta(minutes=15)
    assert timeout_of(app, endless) == endless.timeout == LONGEST_TIMEOUT
    assert timeout_of(App("other", timeout=None), job) == LONGEST_TIMEOUT


@pytest.mark.parametrize(
    ("timeout", "fault"),
    [
        (timedelta(0), "must be positive"),
        (timedelta(seconds=-1), "must not be negative"),
        (timedelta(hours=12), "must be at most 11:50:00"),
        (43_200, "must be at most 11:50:00"),
        ("30s", r"must be a timedelta or a number of seconds, got '30s': write timedelta\(sec"),
    ],
)
def test_a_timeout_out_of_range_is_refused_with_the_range(
    app: App, timeout: Any, fault: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"the type 'slow': timeout {fault}"):
        app.define("slow", Order, timeout=timeout)
    with pytest.raises(ConfigurationError, match=f"the app 'slow': timeout {fault}"):
        App("slow", timeout=timeout)


def test_schema_versions_count_from_one(app: App) -> None:
    with pytest.raises(ConfigurationError, match="the type 'old': schema counts from 1, got 0"):
        app.define("old", Order, schema=0)


def test_a_priority_may_be_given_by_its_name(app: App) -> None:
    assert app.define("a", Order, priority=Priority("high")).priority is Priority.HIGH
    with pytest.raises(ConfigurationError, match="has no priority 'urgent'"):
        app.define("b", Order, priority="urgent")  # type: ignore[call-overload]  # the point


# --- schedules -----------------------------------------------------------------------------------


class Report(BaseModel):
    days: int = 1


def test_a_scheduled_type_s_payload_is_its_model_s_defaults(app: App) -> None:
    daily = app.define("report", Report, schedule=cron("0 8 * * ? *"))
    assert daily.load({}) == Report(days=1)


def test_a_scheduled_type_needs_defaults_for_every_payload_field(app: App) -> None:
    with pytest.raises(
        ConfigurationError, match=r"'report' has a schedule.*defaults.*id: Field re"
    ):
        app.define("report", Order, schedule=cron("0 8 * * ? *"))
    assert "report" not in app.types


def test_a_schedule_s_payload_may_be_another_and_is_checked_at_once(app: App) -> None:
    when = cron("0 8 * * ? *")
    weekly = app.define("weekly", Report, schedule=when, schedule_payload=Report(days=7))
    assert weekly.scheduled_payload(*weekly.schedules) == {"days": 7}
    daily = app.define("daily", Report, schedule=when)
    assert daily.scheduled_payload(*daily.schedules) == {}
    with pytest.raises(ConfigurationError, match=r"'order' has a schedule.*the payload given"):
        app.define("order", Order, schedule=when, schedule_payload=Report())
    with pytest.raises(ConfigurationError, match="'idle': schedule_payload is what a schedule"):
        app.define("idle", Report, schedule_payload=Report())


class Wallet(BaseModel):
    balances: dict[str, int]
    pin: int

    @field_validator("pin")
    @classmethod
    def four_digits(cls, pin: int) -> int:
        if pin > 9999:
            raise ValueError(f"{pin} has more than four digits")
        return pin


def test_an_error_about_a_received_payload_quotes_nothing_of_it() -> None:
    wallet = App("shop").define("open-wallet", Wallet)
    with pytest.raises(PayloadInvalid) as refused:
        wallet.load({"balances": {"ada@example.com": "much"}, "pin": 12345})
    told = str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None
    assert "balances.*: " in told
    assert "pin: a validator of the model refuses it" in told
    assert not any(secret in told for secret in ("ada@example.com", "much", "12345"))


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("cost", r"rate_limit=RateLimit\(\.\.\., cost="),
        ("key", r"rate_limit=RateLimit\(\.\.\., key=\.\.\.\) or concurrency=Concurrency\("),
        ("max_attempts", r"retry=Retry\(max_attempts=\.\.\.\)"),
        ("backoff", r"retry=Retry\(backoff=\.\.\.\)"),
    ],
)
def test_an_option_that_belongs_to_another_one_is_refused_with_its_place(
    app: App, option: str, said: str
) -> None:
    options: dict[str, Any] = {option: 3}
    with pytest.raises(ConfigurationError, match=f"has no option '{option}': .*{said}"):
        app.define("ship", Order, **options)
