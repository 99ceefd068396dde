"""The fixture ``jobs``, in a project of its own."""

from __future__ import annotations

import pytest

import headgate.jobs.testing.harness  # noqa: F401 - else pytester imports it anew for each project

pytest_plugins = ["pytester"]

APP = """
from collections.abc import Iterator
from headgate import App

app = App("plugged")

class Mailer:
    sent = "for real"

@app.resource
def mailer() -> Iterator[Mailer]:
    raise AssertionError("a test opens no real resource")
    yield Mailer()

@app.job("greet")
def greet(to: str, mailer: Mailer) -> str:
    return mailer.sent
"""
TEST = """
from plugged import app, greet
from headgate.testing import Done

def test_a_job_runs(jobs):
    assert jobs.app is app
    jobs.client.submit(greet, "Ada")
    jobs.drain()
    assert len(jobs.completed(greet)) == 1

def test_each_test_has_its_own(jobs):
    assert jobs.completed(greet) == []
    assert jobs.run(greet, "Ada") == Done(result="in memory")
"""
CONFTEST = """
import pytest
from plugged import Mailer

@pytest.fixture
def headgate_resources():
    fake = Mailer()
    fake.sent = "in memory"
    return {Mailer: fake}
"""
# Where Headgate is installed, pytest loads the plugin by its name; here it is always this one.
PLUGIN = (
    *("-p", "no:headgate", "-p", "headgate.pytest_plugin", "-p", "no:cacheprovider"),
    *("-o", "asyncio_default_fixture_loop_scope=function"),
)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.syspath_prepend(pytester.path)
    pytester.makepyfile(plugged=APP, test_plugged=TEST, conftest=CONFTEST)
    return pytester


def test_jobs_is_a_harness_of_the_project_s_app_with_its_fakes(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nheadgate_app = plugged:app\n")
    project.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=2)


def test_a_project_that_names_no_app_is_told_where_to(project: pytest.Pytester) -> None:
    ended = project.runpytest_inprocess(*PLUGIN)
    ended.assert_outcomes(errors=2)
    ended.stdout.fnmatch_lines(["*no app is named: write headgate_app*"])


def test_an_app_that_can_not_be_imported_is_a_usage_error(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nheadgate_app = plugged:ap\n")
    ended = project.runpytest_inprocess(*PLUGIN)
    ended.assert_outcomes(errors=2)
    ended.stdout.fnmatch_lines(["*did you mean 'app'?*"])


FAILING = """
from plugged import greet
from headgate.testing import Harness

def test_of_another_payload(jobs):
    jobs.client.submit(greet, "Ada")
    jobs.assert_submitted(greet, "Grace")

def test_of_a_wrong_payload(jobs):
    jobs.client.submit(greet, ["Ada"])

def test_of_something_unforeseen(jobs, monkeypatch):
    monkeypatch.setattr(Harness, "submitted", lambda *_: 1 / 0)
    jobs.assert_submitted(greet, "Ada")
"""


def test_a_failed_test_s_traceback_ends_in_the_test_and_not_in_headgate(
    project: pytest.Pytester,
) -> None:
    project.makeini("[pytest]\nheadgate_app = plugged:app\n")
    project.makepyfile(test_plugged=FAILING)
    told = project.runpytest_subprocess(*PLUGIN, "-k", "payload").stdout.str()
    assert "expected one 'greet' with 'Grace', found 0 among ['Ada']" in told
    assert "the payload of 'greet' is not valid" in told
    assert "harness.py" not in told
    assert "prepare.py" not in told
    told = project.runpytest_subprocess(*PLUGIN, "-k", "payload", "--full-trace").stdout.str()
    assert "harness.py" in told


def test_an_error_that_nobody_foresaw_shows_where_in_headgate_it_came_from(
    project: pytest.Pytester,
) -> None:
    project.makeini("[pytest]\nheadgate_app = plugged:app\n")
    project.makepyfile(test_plugged=FAILING)
    told = project.runpytest_subprocess(*PLUGIN, "-k", "unforeseen").stdout.str()
    assert "ZeroDivisionError" in told
    assert "harness.py" in told


def test_a_harness_that_can_not_be_made_fails_its_test_alone(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_plugged="""
        from datetime import datetime
        from headgate.testing import Harness
        from plugged import app

        def test_of_a_time_without_a_zone():
            Harness(app, start=datetime(2026, 1, 1))

        def test_of_nothing():
            pass
        """
    )
    ended = project.runpytest_inprocess(*PLUGIN)
    ended.assert_outcomes(failed=1, passed=1)


def test_a_failed_test_shows_why_its_jobs_failed(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_plugged="""
        from plugged import Mailer, app, greet
        from headgate.testing import Harness

        class Broken(Mailer):
            @property
            def sent(self):
                raise ConnectionError("the mail server is away")

        def test_of_a_harness_of_its_own():
            own = Harness(app, resources={Mailer: Broken()})
            own.client.submit(greet, "Ada")
            own.drain()
            assert len(own.completed(greet)) == 1

        def test_of_the_fixture(jobs):
            jobs.client.submit(greet, "Ada")
            jobs.drain()
            assert len(jobs.completed(greet)) == 2

        def test_that_holds_no_harness():
            assert False
        """
    )
    project.makeini("[pytest]\nheadgate_app = plugged:app\n")
    ended = project.runpytest_inprocess(*PLUGIN)
    ended.assert_outcomes(failed=3)
    told = ended.stdout.str()
    assert told.count("Headgate: jobs that failed") == 1
    ended.stdout.fnmatch_lines(
        [
            "*Headgate: jobs that failed*",
            "greet *, attempt 3 of 3:",
            "*ConnectionError: the mail server is away",
            "*test_of_the_fixture*",
        ]
    )
