"""FastAPI: the client's lifetime, and who sees which job."""

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import uuid4

import pytest
from fastapi import Depends, FastAPI, Request
from pydantic import Base64Bytes

from headgate import App, AsyncClient, JobContext, Tenant
from headgate.contrib.fastapi import Headgate
from headgate.errors import ConfigurationError, ServiceUnavailable
from headgate.jobs.client.submitting.submission_records import drain_records
from headgate.testing import Harness
from tests.unit.contrib.asking import ask

LARGE = 400_000
"""A result that long has no place in a record."""


def shop() -> App:
    app = App("shop", records="full")

    @app.job("pack")
    async def pack(order: int, ctx: JobContext) -> str:
        await ctx.progress(50, "packing")
        return "#" * order if order > LARGE else f"box {order}"

    return app


class Site:
    """A web app over a harness, and requests to it."""

    def __init__(self, app: App, *, results: bool = False) -> None:
        self.harness = Harness(app)
        self.jobs = Headgate(app, make_client=lambda: self.harness.async_client)
        self.web = FastAPI(lifespan=self.jobs.lifespan)
        self.web.include_router(
            self.jobs.status_routes(may_see=self._may_see, results=results), prefix="/jobs"
        )

        @self.web.post("/orders/{number}")
        async def order(
            number: int, client: Annotated[AsyncClient, Depends(self.jobs.client)]
        ) -> str:
            job = await client.submit(app.types["pack"], number, tenant=Tenant(org="books"))
            return job.id

    async def _may_see(self, request: Request, job: Any) -> bool:
        return job.tenant is not None and job.tenant.org == request.headers.get("x-shop")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with self.web.router.lifespan_context(self.web):
            yield

    async def ask(self, method: str, path: str, **headers: str) -> tuple[int, Any]:
        """Send a request; return its status, and its answer's JSON."""
        return await ask(self.web, method, path, **headers)


async def test_a_route_submits_by_the_client_of_the_lifespan() -> None:
    site = Site(shop())
    async with site.open():
        status, job_id = await site.ask("POST", "/orders/7")
    assert status == 200
    [waiting] = site.harness.submitted(site.harness.app.types["pack"])
    assert (waiting.id, waiting.payload) == (job_id, 7)


async def test_a_web_app_without_the_lifespan_says_what_to_write() -> None:
    site = Site(shop())
    async with site.open():
        pass
    with pytest.raises(ConfigurationError, match=r"write FastAPI\(lifespan=jobs.lifespan\)"):
        await site.jobs.client()


@pytest.mark.parametrize("results", [False, True])
async def test_a_job_s_state_is_told_to_who_may_see_it(results: bool) -> None:
    site = Site(shop(), results=results)
    async with site.open():
        _, job_id = await site.ask("POST", "/orders/7")
        await site.harness.adrain()
        status, told = await site.ask("GET", f"/jobs/{job_id}", x_shop="books")
    assert (status, told.pop("result", None)) == (200, "box 7" if results else None)
    assert told == {
        "id": job_id,
        "state": "completed",
        "type": "pack",
        "percent": 50.0,
        "message": "packing",
    }


async def test_a_job_that_waits_has_its_tenant_already() -> None:
    site = Site(shop())
    async with site.open():
        _, job_id = await site.ask("POST", "/orders/7")
        await drain_records(site.harness.async_client)
        status, told = await site.ask("GET", f"/jobs/{job_id}", x_shop="books")
    assert (status, told) == (200, {"id": job_id, "state": "waiting", "type": "pack"})


async def test_a_result_that_is_too_large_for_a_record_is_read_from_the_bucket() -> None:
    site = Site(shop(), results=True)
    async with site.open():
        _, job_id = await site.ask("POST", f"/orders/{LARGE + 1}")
        await site.harness.adrain()
        _, told = await site.ask("GET", f"/jobs/{job_id}", x_shop="books")
        assert told["result"] == "#" * (LARGE + 1)
        site.harness.store.fail("get", ServiceUnavailable("S3 is down"))
        status, _ = await site.ask("GET", f"/jobs/{job_id}", x_shop="books")
    assert status == 503


@pytest.mark.parametrize("length", [3, LARGE])
async def test_the_route_shows_a_result_as_its_annotation_writes_it(length: int) -> None:
    app = App("shop", records="full")

    @app.job("pack")
    async def pack(_order: int) -> Base64Bytes:
        return b"\xff" * length

    site = Site(app, results=True)
    async with site.open():
        _, job_id = await site.ask("POST", "/orders/1")
        await site.harness.adrain()
        status, told = await site.ask("GET", f"/jobs/{job_id}", x_shop="books")
    assert status == 200
    assert told["result"] == b64encode(b"\xff" * length).decode()


async def test_a_result_that_is_lost_is_told_from_none() -> None:
    site = Site(shop(), results=True)
    async with site.open():
        _, job_id = await site.ask("POST", f"/orders/{LARGE + 1}")
        await site.harness.adrain()
        site.harness.store.objects.clear()
        status, told = await site.ask("GET", f"/jobs/{job_id}", x_shop="books")
    assert (status, told["state"], "result" in told) == (200, "completed", False)
    assert "its result can't be read" in told["result_fault"]


async def test_others_learn_no_more_than_of_a_job_that_does_not_exist() -> None:
    site = Site(shop())
    async with site.open():
        _, job_id = await site.ask("POST", "/orders/7")
        await site.harness.adrain()
        answers = [
            await site.ask("GET", f"/jobs/{each}", x_shop="toys") for each in (job_id, uuid4())
        ]
    assert answers == [(404, {"detail": "There is no such job."})] * 2


async def test_records_that_can_not_be_read_now_are_no_missing_job() -> None:
    site = Site(shop())
    async with site.open():
        _, job_id = await site.ask("POST", "/orders/7")
        site.harness.table.faults.raise_on("query", ServiceUnavailable("DynamoDB is down"))
        status, _ = await site.ask("GET", f"/jobs/{job_id}", x_shop="books")
    assert status == 503


async def test_a_test_overrides_the_client_of_all_routes_without_the_lifespan() -> None:
    site = Site(shop())
    site.web.dependency_overrides[site.jobs.client] = lambda: site.harness.async_client
    _, job_id = await site.ask("POST", "/orders/7")
    await site.harness.adrain()
    status, told = await site.ask("GET", f"/jobs/{job_id}", x_shop="books")
    assert (status, told["state"]) == (200, "completed")
