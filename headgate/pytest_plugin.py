"""The plugin of pytest: the fixture ``jobs``, a `Harness` of the project's app; and the errors of
its jobs in the report of a test that failed.

pytest loads it wherever Headgate is installed; nothing of Headgate is imported before a test asks
for a fixture.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headgate import App
    from headgate.jobs.definitions.handlers.injection import Shared
    from headgate.testing import Harness

_OPTION = "headgate_app"
_HIDDEN = "__tracebackhide__"
"""pytest's name for a module whose frames it leaves out of tracebacks."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a project name its app."""
    parser.addini(_OPTION, "The app of the fixture jobs, as in shop.app:app.", default="")


@pytest.fixture
def headgate_app(pytestconfig: pytest.Config) -> App:
    """The app that pytest's option ``headgate_app`` names; replace it by a fixture of your own."""
    from headgate import load_app
    from headgate.jobs.errors import HeadgateError

    path: str = pytestconfig.getini(_OPTION)
    if not path:
        raise pytest.UsageError(
            'no app is named: write headgate_app = "shop.app:app" under [tool.pytest.ini_options] '
            "in pyproject.toml, or a fixture headgate_app that returns the App"
        )
    try:
        return load_app(path)
    except HeadgateError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.fixture
def headgate_resources() -> Shared:
    """Values by type that replace the app's resources: none, unless you replace this fixture."""
    return {}


@pytest.fixture
def jobs(headgate_app: App, headgate_resources: Shared) -> Harness:
    """The app's jobs in memory and in virtual time, a new `Harness` for each test."""
    from headgate.testing import Harness

    return Harness(headgate_app, resources=headgate_resources)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)  # the way that every release of pytest knows
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, Any, None]:
    """Shorten what a failed test shows of Headgate, and add the errors of its jobs.

    A drain raises none of them. ``--full-trace`` shows Headgate's own frames.
    """
    _leave_out_our_frames(item, call)
    made = yield
    report: pytest.TestReport = made.get_result()
    if call.when == "call" and report.failed and "headgate.jobs.testing.harness" in sys.modules:
        from headgate.jobs.testing.failures import failures

        events = [event for jobs in _harnesses(item, call) for event in jobs.events]
        if told := failures(events):
            report.sections.append(("Headgate: jobs that failed", told))


def _harnesses(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[Harness]:
    """Yield those that a test was given, or holds where it failed."""
    from headgate.testing import Harness

    frames = [] if call.excinfo is None else [entry.frame for entry in call.excinfo.traceback]
    seen = [getattr(item, "funcargs", {}), *(frame.f_locals for frame in frames)]
    found = {id(value): value for values in seen for value in values.values()}
    # One whose construction failed has no events.
    made = (value for value in found.values() if type(value) is Harness)
    yield from (jobs for jobs in made if hasattr(jobs, "events"))


def _leave_out_our_frames(item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
    """Leave Headgate's own frames out of the traceback of what it tells of a test or its code.

    The tests of Headgate itself show them.
    """
    if call.excinfo is None or item.config.rootpath == Path(__file__).parents[1]:
        return
    for names in _ours(call.excinfo.value):
        names.setdefault(_HIDDEN, _is_told)


def _is_told(found: pytest.ExceptionInfo[BaseException]) -> bool:
    """Return True for an error that speaks of the user's code; any other may be our own fault."""
    from headgate.jobs.errors import HeadgateError

    return isinstance(found.value, AssertionError | HeadgateError)


def _ours(error: BaseException | None) -> Iterator[dict[str, Any]]:
    """Yield the names of each module of Headgate in the traceback of an error and of its causes."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))  # causes may go round in a circle
        frames = error.__traceback__
        while frames is not None:
            names = frames.tb_frame.f_globals
            if str(names.get("__name__")).startswith("headgate."):
                yield names
            frames = frames.tb_next
        error = error.__cause__ or error.__context__
