"""FastAPI: a client for the lifetime of the web app, a dependency, and a route for jobs' states."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from uuid import UUID

from pydantic import BaseModel

from headgate import App, AsyncClient, JobState
from headgate.contrib._needed import needed
from headgate.errors import ConfigurationError, RecordsOff, ResultInvalid, TransportError
from headgate.jobs.records.history import JobRecord
from headgate.jobs.records.results import dumped
from headgate.jobs.values.yielding import written

try:
    from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
except ModuleNotFoundError as error:
    raise needed("fastapi", error) from error

__all__ = ["Headgate", "JobStatus", "MaySee"]

MaySee: TypeAlias = Callable[[Request, JobRecord], Awaitable[bool]]
"""Returns True if whoever sends a request may see a job, by its record.

It has the job's type and tenant once something is recorded of the job: with ``records="full"`` from
its submission on, else once it has run for a second, failed or ended. Until then both are None.
"""


class JobStatus(BaseModel):
    """The answer of the status route."""

    id: str
    state: JobState
    type: str | None = None
    percent: float | None = None
    """The progress that its handler reported last, 0 to 100."""
    message: str | None = None
    """The handler's own note on it."""
    result: Any = None
    """The handler's return value, if the route tells results."""
    result_fault: str | None = None
    """The reason why it can't be told, although the job has completed with one."""


class Headgate:
    """An app's client in a FastAPI app: open from its start to its end.

    Args:
        app: the app whose jobs are submitted.
        make_client: makes the client; None is ``AsyncClient(app)``, with the standard AWS settings.

    Example:
        >>> jobs = Headgate(app)  # doctest: +SKIP
        >>> web = FastAPI(lifespan=jobs.lifespan)
        >>> @web.post("/orders", status_code=202)
        ... async def order(order: Order, client: Annotated[AsyncClient, Depends(jobs.client)]):
        ...     job = await client.submit(send_receipt, Receipt(order=order.id))
        ...     return {"job": job.id}
    """

    def __init__(self, app: App, *, make_client: Callable[[], AsyncClient] | None = None) -> None:
        self._app = app
        self._make_client = make_client or (lambda: AsyncClient(app))
        self._client: AsyncClient | None = None

    @asynccontextmanager
    async def lifespan(self, _web: FastAPI) -> AsyncIterator[None]:
        """Open the client, and close it at the end: ``FastAPI(lifespan=jobs.lifespan)``.

        Within a lifespan of your own, write ``async with jobs.lifespan(web):``.
        """
        async with self._make_client() as client:
            self._client = client
            try:
                yield
            finally:
                self._client = None

    async def client(self) -> AsyncClient:
        """Return the open client; the dependency of routes that submit jobs.

        Raises:
            ConfigurationError: the web app was made without `lifespan`.
        """
        if self._client is None:
            raise ConfigurationError(
                f"the client of {self._app.name!r} is not open: write "
                "FastAPI(lifespan=jobs.lifespan), or enter it in your own lifespan"
            )
        return self._client

    def status_routes(self, *, may_see: MaySee, results: bool = False) -> APIRouter:
        """Return a router whose ``GET /{job_id}`` answers with a job's `JobStatus`.

        It answers 404 for a job that is unknown, and for one that ``may_see`` denies, so that
        nobody learns which exist; 503 if the records can't be read now.

        Args:
            may_see: decides who sees which job; nobody does without it. One that decides by the
                tenant needs types with ``records="full"``: see `MaySee`.
            results: whether the answer has the handler's return value.
        """
        router = APIRouter()
        opened = Depends(self.client)  # so that dependency_overrides reach this route as well

        @router.get("/{job_id}", response_model_exclude_none=True)
        async def status(job_id: UUID, request: Request, client: AsyncClient = opened) -> JobStatus:
            record = await _record(client, str(job_id))
            if record.state is JobState.UNKNOWN or not await may_see(request, record):
                raise HTTPException(404, "There is no such job.")
            told = _status(record)
            if results:
                await _add_result(told, record, client, self._app)
            return told

        return router


async def _record(client: AsyncClient, job_id: str) -> JobRecord:
    try:
        return await client.handle(job_id).history()
    except ValueError as error:  # a UUID, but of another kind than jobs have
        raise HTTPException(404, "There is no such job.") from error
    except RecordsOff as error:
        raise HTTPException(404, "No records of this job are kept.") from error
    except TransportError as error:
        raise HTTPException(503, "The job's state can't be read now.") from error


async def _add_result(told: JobStatus, record: JobRecord, client: AsyncClient, app: App) -> None:
    told.result = record.result
    told.result_fault = record.result_fault or None
    if record.result_ref is None:
        return
    try:  # too large for a record
        result = await client.handle(record.id).result(timeout=0)
        declared = app.types.get(record.type or "")
        told.result, _ = await dumped(result, declared.write_result if declared else written)
    except ResultInvalid as error:
        told.result_fault = str(error)
    except TransportError as error:
        raise HTTPException(503, "The job's result can't be read now.") from error


def _status(record: JobRecord) -> JobStatus:
    progress = record.progress
    return JobStatus(
        id=record.id,
        state=record.state,
        type=record.type,
        percent=None if progress is None else progress.percent,
        message=None if progress is None else progress.note or None,
    )
