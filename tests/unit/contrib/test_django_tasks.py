"""Django's tasks, run as jobs: those of Django 6, or of the package for older ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
import pytest
from django.conf import settings

from headgate import App
from headgate.contrib.django import using_client
from headgate.contrib.django.tasks import JOB_TYPE, HeadgateBackend, TaskCall, task_router
from headgate.testing import Harness

if TYPE_CHECKING or django.VERSION < (6,):
    from django_tasks import TaskContext, task, task_backends
    from django_tasks.exceptions import TaskException
    from django_tasks.signals import task_enqueued
else:
    from django.tasks import TaskContext, task, task_backends
    from django.tasks.exceptions import TaskException
    from django.tasks.signals import task_enqueued

pytestmark = pytest.mark.usefixtures("django")

ran: list[Any] = []


@task
def add(a: int, b: int = 0) -> int:
    ran.append(a + b)
    return a + b


@task
async def add_later(a: int) -> int:
    ran.append(a)
    return a


@task(takes_context=True)
def attempt(context: TaskContext) -> int:
    ran.append(context.attempt)
    if context.attempt == 1:
        raise ConnectionError("once more")
    return context.attempt


def no_task() -> None:
    ran.append("never")


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    app = App("shop")
    app.include(task_router(other_priorities=["high", "low"]))
    jobs = Harness(app)
    monkeypatch.setattr("headgate.contrib.django.tasks.configured_app", lambda: app)
    ran.clear()
    with using_client(jobs.client):
        yield jobs


@pytest.mark.parametrize(("enqueued", "expected"), [(add, 3), (add_later, 1)])
def test_a_task_runs_as_a_job_with_its_arguments(
    harness: Harness, enqueued: Any, expected: int
) -> None:
    result = enqueued.enqueue(1, b=2) if enqueued is add else enqueued.enqueue(1)
    harness.drain()
    assert ran == [expected]
    assert harness.client.handle(result.id).result(timeout=0) == expected


def test_priority_and_time_are_those_of_the_task(harness: Harness) -> None:
    for priority in (0, 50, -1):
        add.using(priority=priority).enqueue(priority)
    add.using(run_after=datetime.now(UTC) + timedelta(days=400)).enqueue(4)
    jobs = harness.submitted(harness.app.types[JOB_TYPE])
    found = {each.payload.arguments[0]: each.priority for each in jobs}
    assert found == {0: "normal", 50: "high", -1: "low", 4: "normal"}
    assert len(harness.scheduler.sync.names(harness.app.topology.schedule_group, prefix="")) == 1


def test_a_task_of_djangos_default_priority_has_that_of_the_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App("shop")
    app.queue("bulk", priorities=["low"])
    app.include(task_router("bulk", priority="low"))
    monkeypatch.setattr("headgate.contrib.django.tasks.configured_app", lambda: app)
    jobs = Harness(app)
    with using_client(jobs.client):
        add.enqueue(1, b=2)
    assert [each.priority for each in jobs.submitted(app.types[JOB_TYPE])] == ["low"]


def test_a_task_with_a_context_knows_its_attempt(harness: Harness) -> None:
    attempt.enqueue()
    harness.drain()
    assert ran == [1, 2]


def test_an_enqueued_task_is_told_to_django(harness: Harness) -> None:
    heard: list[Any] = []

    def hear(task_result: Any, **_named: Any) -> None:
        heard.append(task_result)

    task_enqueued.connect(hear, sender=HeadgateBackend)
    try:
        result = add.enqueue(1)
    finally:
        task_enqueued.disconnect(hear, sender=HeadgateBackend)
    assert heard == [result]
    assert (result.status, result.args, result.attempts) == ("READY", [1], 0)
    assert len(harness.submitted(harness.app.types[JOB_TYPE])) == 1


@pytest.mark.parametrize("path", ["no_task", "nothing", "no_task.__globals__"])
def test_nothing_but_a_task_is_called_whatever_a_message_names(harness: Harness, path: str) -> None:
    job = harness.app.types[JOB_TYPE]
    harness.client.submit(job, TaskCall(task=f"{__name__}.{path}"))
    harness.drain()
    [letter] = harness.dead_letters(job)
    assert letter.attributes["Reason"] == "do-not-retry"
    assert ran == []


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two packages that nobody has imported: ``tasksofours`` is of the project."""
    for name in ("tasksofours", "tasksofothers"):
        (tmp_path / name).mkdir()
        code = f"from {__name__} import ran, task\nran.append('imported')\n"
        (tmp_path / name / "acts.py").write_text(f"{code}@task\ndef act():\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(settings, "HEADGATE_APP", "tasksofours.jobs:app")
    yield
    for name in [name for name in sys.modules if name.startswith("tasksof")]:
        del sys.modules[name]


@pytest.mark.usefixtures("modules")
def test_a_message_has_only_modules_of_the_project_imported(harness: Harness) -> None:
    job = harness.app.types[JOB_TYPE]
    handle = harness.client.submit(job, TaskCall(task="tasksofothers.acts.act"))
    harness.drain()
    [letter] = harness.dead_letters(job)
    assert letter.attributes["JobId"] == handle.id
    assert letter.attributes["Reason"] == "do-not-retry"
    assert ran == []
    assert "tasksofothers" not in sys.modules

    harness.client.submit(job, TaskCall(task="tasksofours.acts.act"))
    harness.drain()
    assert ran == ["imported"]
    assert len(harness.dead_letters(job)) == 1


def test_a_task_that_is_no_module_level_function_is_refused() -> None:
    with pytest.raises(TaskException):
        task(lambda: None)


def test_an_app_without_the_job_type_fails_django_s_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headgate.contrib.django.tasks.configured_app", lambda: App("shop"))
    [fault] = task_backends["default"].check()
    assert (fault.id, "app.include(task_router())" in fault.msg) == ("headgate.E001", True)
