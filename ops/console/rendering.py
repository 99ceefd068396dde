"""Pages from templates. Every text in them is escaped, and says nothing to a browser but itself."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.console import words
from headgate.ops.console.sent_forms import FIELD, new_form_id

if TYPE_CHECKING:
    from headgate.ops.console.context import Console

STATIC = Path(__file__).parent / "static"
"""Files that browsers load besides pages."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A page of the navigation."""

    title: str
    path: str
    key: str
    """The key that leads there, after ``g``."""


NAVIGATION = (
    Entry(title="Overview", path="/", key="o"),
    Entry(title="Jobs", path="/jobs", key="j"),
    Entry(title="Dead letters", path="/dead", key="d"),
    Entry(title="Replays", path="/replays", key="r"),
    Entry(title="Queues", path="/queues", key="q"),
    Entry(title="Workers", path="/workers", key="w"),
    Entry(title="Schedules", path="/schedules", key="s"),
    Entry(title="Retries", path="/plan", key="p"),
    Entry(title="Audit", path="/audit", key="a"),
)


def console_of(request: Request) -> Console:
    """Return the console that a request was sent to."""
    console: Console = request.scope["headgate.console"]
    return console


def base_of(request: Request) -> str:
    """Return the path that the console is mounted at; empty at the root."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def path_of(request: Request) -> str:
    """Return a request's path within the console."""
    return str(request.scope["path"]).removeprefix(base_of(request)) or "/"


def render(
    request: Request,
    template: str,
    *,
    title: str,
    active: str = "",
    every_s: int = 0,
    status: int = 200,
    **values: Any,
) -> HTMLResponse:
    """Return a page.

    Args:
        request: the request that it answers.
        template: the name of its template, which extends ``base.html``.
        title: its heading.
        active: the path of its entry in the navigation.
        every_s: the seconds after which the parts marked ``data-live`` are looked at again; 0 is
            never.
        status: the status of the answer.
        values: what the template uses besides.
    """
    console = console_of(request)
    context = {
        "title": title,
        "active": active,
        "every_s": every_s,
        "base": base_of(request),
        "console": console,
        "navigation": NAVIGATION,
        "now": console.clock.now(),
        "viewer": getattr(request.state, "viewer", None),
        "version": version(),
    }
    text = _environment().get_template(template).render({**context, **values})
    return HTMLResponse(text, status_code=status)


def render_error(request: Request, status: int, title: str, text: str) -> HTMLResponse:
    """Return a page that says why there is no other."""
    return render(request, "error.html", title=title, status=status, text=text, code=status)


@cache
def version() -> str:
    """Return a text that changes whenever a static file does."""
    digest = hashlib.sha256()
    for path in sorted(STATIC.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=words.shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for each in (
        *(words.number, words.exact, words.span, words.exact_span, words.moment),
        *(words.machine_time, words.clock_time, words.plural),
    ):
        environment.filters[each.__name__] = each
    environment.globals["form_field"] = FIELD
    environment.globals["form_id"] = new_form_id
    return environment
