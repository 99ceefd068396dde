"""``/dead/export``: dead letters as a file, which `LetterDesk.import_` reads."""

from __future__ import annotations

import tempfile
from datetime import timedelta

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from headgate.ops.console.forms import form_of
from headgate.ops.console.pages.dead.asked import asked_letters
from headgate.ops.console.rendering import console_of

_WITHIN = timedelta(seconds=60)


def export(request: Request) -> Response:
    """Answer with the letters, payloads and all, a line of JSON each."""
    console, asked = console_of(request), asked_letters(form_of(request))
    file = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed once it is sent
    try:
        done = console.act(
            request,
            lambda: console.client.dead_letters.export(asked.filter(), to=file, within=_WITHIN),
            changes=(),
        )
    except BaseException:
        file.close()
        raise
    file.seek(0)
    part = "" if done.look.complete else "-part"
    name = f"{console.app.name}-dead-letters-{console.clock.now():%Y%m%d-%H%M%S}{part}.jsonl"
    return StreamingResponse(
        file,
        media_type="application/jsonl",
        headers={"content-disposition": f'attachment; filename="{name}"'},
        background=BackgroundTask(file.close),
    )


ROUTES = [Route("/dead/export", export, methods=["POST"])]
