"""Declaring batch handlers: their signatures, their results, and what excludes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Batch, BatchContext, JobContext, Priority, Router
from headgate.errors import ConfigurationError, SettingsInvalid
from headgate.jobs.definitions.policies import load_handlers


class Text(BaseModel):
    text: str = ""


class Vector(BaseModel):
    of: str


class Session:
    """A resource."""


BATCH = Batch(10, wait=1)


async def takes_items(_items: list[Text], _ctx: BatchContext) -> None: ...


def takes_a_sequence(_items: Sequence[Text], _ctx: BatchContext) -> None: ...


@pytest.mark.parametrize("handler", [takes_items, takes_a_sequence])
def test_the_payload_of_a_batch_type_is_that_of_one_item(handler: Callable[..., Any]) -> None:
    job = App("shop").job("embed", batch=BATCH)(handler)
    assert (job.payload, job.batch) == (Text, BATCH)


def test_a_type_declared_without_its_handler_gets_a_batch_handler() -> None:
    embed = App("shop").define("embed", Text, batch=BATCH)
    assert embed.handler(takes_items) is takes_items
    with pytest.raises(ConfigurationError, match="runs batches, so it takes the payloads"):
        App("shop").define("embed", Text, batch=BATCH).handler(takes_one)


async def test_a_batch_handler_stays_callable() -> None:
    @App("shop").job("embed", batch=BATCH)
    async def embed(items: list[Text], ctx: BatchContext) -> list[str]:
        assert ctx is context
        return [item.text for item in items]

    context: Any = object()
    assert await embed([Text(text="a"), Text(text="b")], context) == ["a", "b"]


def returning(annotation: Any) -> Callable[[list[Text], BatchContext], Any]:
    def handler(_items: list[Text], _ctx: BatchContext) -> Any: ...

    handler.__annotations__["return"] = annotation
    return handler


@pytest.mark.parametrize(
    ("annotated", "of_one"),
    [
        (None, type(None)),
        (Any, Any),
        (list[Vector], Vector),
        (Sequence[Vector], Vector),
        (list[Vector | Exception], Vector),
        (list[Vector] | None, Vector | None),
        (list[Vector | ValueError | None], Vector | None),
        (list[BaseException], type(None)),
    ],
)
def test_a_jobs_result_is_one_of_the_list_that_its_handler_returns(
    annotated: Any, of_one: Any
) -> None:
    job = App("shop").job("embed", batch=BATCH)(returning(annotated))
    assert job.returns == of_one


@pytest.mark.parametrize("annotated", [Vector, dict[str, Vector], list, list[Vector] | int])
def test_a_batch_handler_that_returns_no_list_is_refused(annotated: Any) -> None:
    with pytest.raises(ConfigurationError, match="returns None, or a list with the result of each"):
        App("shop").job("embed", batch=BATCH)(returning(annotated))


async def takes_one(_item: Text) -> None: ...


async def takes_nothing() -> None: ...


async def takes_a_bare_list(_items: list, _ctx: BatchContext) -> None: ...  # type: ignore[type-arg]


async def takes_no_context(_items: list[Text]) -> None: ...


async def takes_a_job_context(_items: list[Text], _ctx: JobContext) -> None: ...


async def takes_a_batch_context(_item: Text, _ctx: BatchContext) -> None: ...


@pytest.mark.parametrize(
    "handler", [takes_one, takes_nothing, takes_a_bare_list, takes_no_context, takes_a_job_context]
)
def test_a_batch_handler_takes_a_list_and_a_batchs_context(handler: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"\(items: list\[Email\], ctx: BatchContext\)"):
        App("shop").job("embed", batch=BATCH)(handler)


def test_a_handler_of_one_job_is_refused_the_context_of_a_batch() -> None:
    with pytest.raises(ConfigurationError, match="annotate it with JobContext, or declare"):
        App("shop").job("embed")(takes_a_batch_context)


def test_a_batch_has_no_process_of_its_own() -> None:
    with pytest.raises(ConfigurationError, match=r"isolation='process'.*leave out one"):
        App("shop").job("embed", batch=BATCH, isolation="process")(takes_items)


def test_a_type_without_a_payload_has_no_batches() -> None:
    with pytest.raises(ConfigurationError, match="has no payload"):
        App("shop").define("nightly", batch=BATCH)


def test_a_fifo_queue_takes_no_batches() -> None:
    app = App("shop")
    ledger = app.queue("ledger", fifo=True, priorities=[Priority.NORMAL])
    with pytest.raises(ConfigurationError, match="its queue 'ledger' is FIFO"):
        ledger.define("embed", Text, batch=BATCH)
    router = Router("ledger")
    router.job("routed", batch=BATCH)(takes_items)
    with pytest.raises(ConfigurationError, match="its queue 'ledger' is FIFO"):
        app.include(router)


def test_a_batch_is_a_batch() -> None:
    with pytest.raises(ConfigurationError, match="batch must be a Batch"):
        App("shop").job("embed", batch=100)(takes_items)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, -1, 1_001, 2.5, True, None])
def test_a_batch_has_one_to_a_thousand_jobs(size: Any) -> None:
    with pytest.raises(SettingsInvalid, match="between 1 and 1000"):
        Batch(size)


def test_a_batch_waits_for_five_minutes_at_most() -> None:
    assert Batch(2, wait=300).wait == timedelta(minutes=5)
    assert Batch(2, wait=0).wait == timedelta(0)
    with pytest.raises(SettingsInvalid, match="0:05:00 at most"):
        Batch(2, wait=301)


def test_a_group_is_a_tenant_or_a_functions() -> None:
    with pytest.raises(SettingsInvalid, match='takes "tenant", or a function'):
        Batch(2, group_by="org")  # type: ignore[arg-type]


def test_a_resource_that_takes_one_jobs_context_is_refused_to_a_batch() -> None:
    app = App("shop")

    @app.resource(scope="job")
    async def session(_ctx: JobContext) -> AsyncIterator[Session]:
        yield Session()

    @app.job("embed", batch=BATCH)
    async def embed(_items: list[Text], _ctx: BatchContext, _session: Session) -> None: ...

    with pytest.raises(ConfigurationError, match="takes the context of a single job"):
        load_handlers(app)
