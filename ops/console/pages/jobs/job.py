"""``/jobs/{id}``: one job, its attempts, errors and children; payload and result on demand."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.jobs.client.jobs.children import ChildPage
from headgate.jobs.records.history import JobRecord
from headgate.jobs.records.state import JobState
from headgate.jobs.values.texts import text_of
from headgate.ops.console.context import Console
from headgate.ops.console.forms import query_of, refuse
from headgate.ops.console.pages.jobs.timeline import timeline
from headgate.ops.console.pages.revealed import LOOK, Revealed, revealed_payload, shown
from headgate.ops.console.reader import Seen
from headgate.ops.console.rendering import console_of, render

_FRESH_S = 2.0
_CHILDREN, _CHILDREN_FRESH_S = 20, 10.0
_DEAD = (JobState.DEAD, JobState.QUARANTINED)


def job(request: Request) -> Response:
    """Show a job."""
    console = console_of(request)
    job_id = _id(console, request.path_params["id"])
    seen = console.reader.read(
        ("job", job_id), lambda: console.client.handle(job_id).history(), fresh_s=_FRESH_S
    )
    record, query = seen.value, query_of(request)
    wanted, after = query.text("show", most=20), query.text("after")
    revealed = None if record is None else _revealed(request, record, wanted)
    return render(
        request,
        "job.html",
        title=job_id if record is None else f"{record.type or 'Job'} {job_id}",
        active="/jobs",
        # What was asked for is not asked for again by itself.
        every_s=0 if revealed else 3,
        status=404 if record is not None and record.state is JobState.UNKNOWN else 200,
        seen=seen,
        job_id=job_id,
        record=record,
        timeline=None if record is None else timeline(record, console.clock.now()),
        children=None if record is None else _children(console, job_id, after),
        after=after,
        is_dead=record is not None and record.state in _DEAD,
        takes_payload=record is not None and _takes_payload(console, record),
        takes_group=record is not None and _takes_group(console, record),
        revealed=revealed,
    )


def _id(console: Console, text: str) -> str:
    try:
        return console.client.handle(text).id
    except ValueError as error:
        refuse(str(error), 404)


def _children(console: Console, job_id: str, after: str) -> Seen[ChildPage]:
    """Return a page of a job's children: a query, and two for each of them."""
    return console.reader.read(
        ("children", job_id, after),
        lambda: console.client.jobs.children(job_id, limit=_CHILDREN, after=after),
        fresh_s=_CHILDREN_FRESH_S,
    )


def _takes_payload(console: Console, record: JobRecord) -> bool:
    declared = console.app.types.get(record.type or "")
    return declared is not None and declared.payload is not None


def _takes_group(console: Console, record: JobRecord) -> bool:
    declared = console.app.types.get(record.type or "")
    return declared is not None and console.app.queues[declared.queue].fifo


def _revealed(request: Request, record: JobRecord, wanted: str) -> Revealed | None:
    if wanted not in ("payload", "result"):
        return None
    console = console_of(request)
    show = _payload if wanted == "payload" else _result
    return console.act(request, lambda: show(console, record), changes=())


def _payload(console: Console, record: JobRecord) -> Revealed:
    """Return a payload out of the dead letter."""
    found = console.client.dead_letters.show(record.id, payload=True, within=LOOK)
    return revealed_payload(console.app, found, record.type)


def _result(console: Console, record: JobRecord) -> Revealed:
    """Return a result, without the fields that its type keeps secret."""
    if (ref := record.result_ref) is not None:
        fault = f"It has {ref.size:,} bytes, and lies in the app's bucket: {ref.key}"
        return Revealed(what="Result", fault=fault)
    if record.result_fault or not record.has_result:
        return Revealed(what="Result", fault=record.result_fault or "None was kept.")
    declared = console.app.types.get(record.type or "")
    try:
        read = declared.load_result(record.result) if declared else None
        return shown("Result", record.result, read=read)
    except ValueError as error:
        return Revealed(what="Result", fault=f"Its type can't read it: {text_of(error)}")


ROUTES = [Route("/jobs/{id}", job)]
