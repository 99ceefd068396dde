"""A backend for Django's tasks, of Django 6.0 or of the package django-tasks for older ones.

::

    TASKS = {"default": {"BACKEND": "headgate.contrib.django.tasks.HeadgateBackend"}}
    HEADGATE_APP = "shop.jobs:app"

The app has to include the job type that runs them: ``app.include(task_router())``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from pydantic import BaseModel

from headgate import App, DoNotRetry, JobContext, JobOptions, JobType, Priority, Router
from headgate.contrib._needed import needed
from headgate.contrib.django import client, configured_app
from headgate.errors import ConfigurationError

if TYPE_CHECKING:
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskContext, TaskResult, TaskResultStatus
    from django_tasks.signals import task_enqueued
else:
    try:
        from django.tasks.backends.base import BaseTaskBackend
        from django.tasks.base import Task, TaskContext, TaskResult, TaskResultStatus
        from django.tasks.signals import task_enqueued
    except ModuleNotFoundError:  # Django 5
        try:
            from django_tasks.backends.base import BaseTaskBackend
            from django_tasks.base import Task, TaskContext, TaskResult, TaskResultStatus
            from django_tasks.signals import task_enqueued
        except ModuleNotFoundError as error:
            raise needed("django.tasks", error) from error

from django.apps import apps
from django.conf import ENVIRONMENT_VARIABLE, settings
from django.core.checks import CheckMessage, Error
from django.utils import timezone
from django.utils.module_loading import import_string

__all__ = ["JOB_TYPE", "HeadgateBackend", "TaskCall", "task_router"]

JOB_TYPE = "django-task"
"""The type of the jobs that run Django's tasks."""


class TaskCall(BaseModel):
    """The payload of such a job: a task, and its arguments as JSON values."""

    task: str
    """The path of the task's function, as in ``shop.tasks.send_receipt``."""
    arguments: list[Any] = []
    named: dict[str, Any] = {}


def task_router(queue: str | None = None, **options: Unpack[JobOptions]) -> Router:
    """Return the router with the job type that runs Django's tasks, for `App.include`.

    Args:
        queue: the name of its queue group; None is the app's default one.
        options: the type's, such as ``retry=`` and ``timeout=``; see `JobOptions`.
    """
    router = Router() if queue is None else Router(queue)

    @router.job(JOB_TYPE, **options)
    def run_task(call: TaskCall, ctx: JobContext) -> Any:
        task = _task_at(call.task)
        context = [TaskContext(task_result=_running(task, call, ctx))] if task.takes_context else []
        return task.call(*context, *call.arguments, **call.named)

    return router


class HeadgateBackend(BaseTaskBackend):
    """Runs tasks as jobs of the app that the setting ``HEADGATE_APP`` names.

    A task with a positive priority is a job of priority high, one with a negative of low. Its
    result is read by its id with ``client().handle(id)``; Django's ``get_result`` is not supported,
    since records have no arguments.
    """

    supports_defer = True
    supports_async_task = True
    supports_priority = True

    def enqueue(
        self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TaskResult[Any]:
        """Submit a task's job.

        Raises:
            TaskException: of Django: the task is not valid for this backend.
            ConfigurationError: the app doesn't include `task_router`.
            SubmissionError, TransportError: as `Client.submit`.
        """
        self.validate_task(task)
        call = TaskCall(task=task.module_path, arguments=list(args), named=dict(kwargs))
        due = task.run_after
        if due is not None and timezone.is_naive(due):
            due = timezone.make_aware(due)
        job_type = _job_type(configured_app())
        job = client().submit(job_type, call, at=due, priority=_priority(task.priority))
        result = _result(task, call, job.id, TaskResultStatus.READY)
        task_enqueued.send(type(self), task_result=result)
        return result

    def check(self, **_kwargs: Any) -> Iterable[CheckMessage]:
        """Report an app without the job type that runs tasks, as Django's system check."""
        try:
            _job_type(configured_app())
        except ConfigurationError as error:
            yield Error(str(error), id="headgate.E001")


def _job_type(app: App) -> JobType[TaskCall, Any]:
    found = app.types.get(JOB_TYPE)
    if found is None:
        raise ConfigurationError(
            f"the app {app.name!r} has no job type for Django's tasks: write "
            "app.include(task_router()), from headgate.contrib.django.tasks"
        )
    return found


def _task_at(path: str) -> Task[Any, Any]:
    """Return the task at a path, which a message names: nothing else there is ever called.

    Nor is a module of anything but the project imported for its sake: that alone runs its code.
    """
    module = path.rpartition(".")[0]
    if module not in sys.modules and module.partition(".")[0] not in _packages():
        raise DoNotRetry(
            f"there is no task {path!r} here: {module!r} is in no package of the project or of an "
            "installed Django app, and no module of handlers=[...] imports it"
        )
    try:
        found = import_string(path)
    except ImportError as error:
        raise DoNotRetry(f"there is no task {path!r} here: {error}") from error
    if not isinstance(found, Task):
        raise DoNotRetry(f"{path!r} is no task of Django's")
    return found


def _packages() -> set[str]:
    """Return the names of the packages of the project and of its installed Django apps."""
    named = (
        *(config.name for config in apps.get_app_configs()),
        os.environ.get(ENVIRONMENT_VARIABLE, ""),  # the settings
        getattr(settings, "HEADGATE_APP", None) or "",
    )
    return {each.partition(":")[0].partition(".")[0] for each in named} - {""}


def _priority(of_task: int) -> Priority | None:
    if of_task == 0:  # Django's default: the type's own, which `task_router` may set
        return None
    return Priority.HIGH if of_task > 0 else Priority.LOW


def _running(task: Task[Any, Any], call: TaskCall, ctx: JobContext) -> TaskResult[Any]:
    result = _result(task, call, ctx.id, TaskResultStatus.RUNNING)
    # Django counts attempts by the workers that have begun one.
    result.worker_ids.extend([JOB_TYPE] * ctx.attempt)
    return result


def _result(
    task: Task[Any, Any], call: TaskCall, job_id: str, status: TaskResultStatus
) -> TaskResult[Any]:
    return TaskResult(
        task=task,
        id=job_id,
        status=status,
        enqueued_at=timezone.now() if status is TaskResultStatus.READY else None,
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        args=call.arguments,
        kwargs=call.named,
        backend=task.backend,
        errors=[],
        worker_ids=[],
    )
