"""The public surface is pinned: changing a name requires changing this list."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import headgate
import headgate.errors
import headgate.events
import headgate.infra
import headgate.sentry
import headgate.testing
from headgate.jobs import errors
from headgate.jobs.core import events
from headgate.jobs.retry import signals

ROOT = Path(__file__).parents[2]

PUBLIC = [
    "Accepts",
    "App",
    "AsyncClient",
    "AsyncJobHandle",
    "AuditEntry",
    "Backoff",
    "BackoffContext",
    "Batch",
    "BatchContext",
    "Breaker",
    "Bundle",
    "Client",
    "Concurrency",
    "CrashLimit",
    "DeadLetter",
    "DeadLetterFilter",
    "Discard",
    "DoNotRetry",
    "Encryption",
    "Event",
    "Events",
    "Existing",
    "ExistingQueue",
    "HandledJob",
    "HeadgateError",
    "JobContext",
    "JobFilter",
    "JobHandle",
    "JobOptions",
    "JobState",
    "JobType",
    "Keep",
    "Lane",
    "NewJob",
    "Pause",
    "Priority",
    "Queue",
    "RateLimit",
    "Replay",
    "Retry",
    "RetryBudget",
    "RetryLater",
    "Router",
    "S3Object",
    "Schedule",
    "ScheduleInfo",
    "Signing",
    "Spool",
    "SubmitOptions",
    "Tenant",
    "Unique",
    "UnreadableSchedule",
    "acting_as",
    "cron",
    "load_app",
    "log_event",
]

TESTING = [
    "Call",
    "Deferred",
    "Discarded",
    "Done",
    "DrainUnfinished",
    "Failed",
    "Faults",
    "Harness",
    "LoopClock",
    "MemoryBackend",
    "MemoryKeys",
    "MemoryMetrics",
    "MemoryScheduler",
    "MemorySecrets",
    "MemorySqs",
    "MemoryStore",
    "MemoryTable",
    "MemoryTopic",
    "MessageState",
    "Outcome",
    "StoredMessage",
    "Submitted",
    "VirtualClock",
]


INFRA = [
    "ConsumerGroup",
    "Deployment",
    "ExistingResources",
    "ExistingVpc",
    "Hardening",
    "HeadgateStack",
    "IJobSystem",
    "JobSystem",
    "MuteWindow",
    "ProvisionedPollers",
    "QueueSelection",
    "QueueThresholds",
    "Sidecar",
    "SignIn",
    "Thresholds",
    "WebConsole",
    "WorkerGroup",
]


def test_the_public_names_are_exactly_these_and_sorted() -> None:
    assert headgate.__all__ == PUBLIC == sorted(PUBLIC)
    assert headgate.testing.__all__ == TESTING == sorted(TESTING)
    assert headgate.infra.__all__ == INFRA == sorted(INFRA)


def test_the_names_for_sentry_are_public_though_they_need_an_extra() -> None:
    assert headgate.sentry.__all__ == ["Reporter", "report_failures"]


CONTRIB = {
    "django": [
        *("client", "configured_app", "manage_connections", "submit_on_commit", "using_client"),
    ],
    "django.tasks": ["JOB_TYPE", "HeadgateBackend", "TaskCall", "task_router"],
    "fastapi": ["Headgate", "JobStatus", "MaySee"],
    "flask": ["Headgate"],
}


@pytest.mark.parametrize("name", CONTRIB)
def test_the_names_of_an_integration_are_public_though_they_need_a_framework(name: str) -> None:
    assert import_module(f"headgate.contrib.{name}").__all__ == CONTRIB[name]


def test_the_console_is_public_though_it_needs_an_extra() -> None:
    assert headgate.console.__module__.startswith("headgate.ops.console")
    assert headgate.Viewer(name="ada").may_act
    assert {"Viewer", "console"} <= set(dir(headgate)) - set(headgate.__all__)


def modules_of(home: ModuleType) -> list[ModuleType]:
    """Return a module, and those in it if it is a package."""
    inside = pkgutil.iter_modules(getattr(home, "__path__", []), f"{home.__name__}.")
    return [home, *(import_module(each.name) for each in inside)]


@pytest.mark.parametrize(
    ("public", "home"),
    [(headgate.errors, errors), (headgate.errors, signals), (headgate.events, events)],
    ids=["errors", "signals", "events"],
)
def test_every_error_and_every_event_is_public(public: ModuleType, home: ModuleType) -> None:
    defined = {
        name
        for module in modules_of(home)
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and name[0] != "_"
    }
    assert set(home.__all__) == defined
    assert all(getattr(public, name) is getattr(home, name) for name in defined)


@pytest.mark.parametrize("folder", ["jobs", "workers", "lambdas", "infra", "ops"])
def test_an_old_import_in_a_checkout_says_what_to_write(folder: str) -> None:
    answered = subprocess.run(
        [sys.executable, "-c", f"import {folder}"], cwd=ROOT, capture_output=True, text=True
    )
    assert answered.returncode == 1
    assert f"'{folder}' is a folder of Headgate's sources: write `" in answered.stderr


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_imported_and_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(headgate, name))


def test_the_async_client_is_imported_only_when_it_is_asked_for() -> None:
    from headgate.jobs.client.async_client import AsyncClient

    assert headgate.AsyncClient is AsyncClient
    with pytest.raises(AttributeError, match="module 'headgate' has no attribute 'AsyncClinet'"):
        _ = headgate.AsyncClinet


def is_event(node: ast.stmt) -> bool:
    """Return True for an event's class, documented by the table at the top of its module."""
    return isinstance(node, ast.ClassDef) and any(
        ast.unparse(line).startswith("name = ") for line in node.body
    )


@pytest.mark.parametrize(
    "path", sorted((ROOT / "jobs").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_every_module_and_every_public_class_and_function_in_it_has_a_docstring(path: Path) -> None:
    module = ast.parse(path.read_text())
    assert ast.get_docstring(module)
    undocumented = [
        node.name
        for node in module.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not is_event(node)
        and not ast.get_docstring(node)
    ]
    assert not undocumented


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_method_of_a_public_class_has_a_docstring(name: str) -> None:
    public = getattr(headgate, name)
    if not inspect.isclass(public):
        return
    undocumented = [
        attribute
        for attribute, value in vars(public).items()
        if not attribute.startswith("_")
        and isinstance(value, property | classmethod | staticmethod | FunctionType)
        and not inspect.getdoc(value)
    ]
    assert not undocumented


ATTRIBUTES = {
    "App": [
        "around",
        "crash_limit",
        "define",
        "encryption",
        "event_rule",
        "event_rules",
        "existing",
        "find_type",
        "handler_modules",
        "include",
        "job",
        "keep",
        "keep_audit",
        "limits",
        "long_delays",
        "max_message_bytes",
        "name",
        "on_complete",
        "on_dead",
        "on_failed",
        "on_progress",
        "on_retry",
        "on_stalled",
        "on_start",
        "parking",
        "queue",
        "queues",
        "records",
        "redaction",
        "replay",
        "resource",
        "resources",
        "signing",
        "stage",
        "timeout",
        "topology",
        "types",
        "use_existing",
    ],
    "AsyncClient": [
        "audit",
        "close",
        "dead_letters",
        "erase",
        "handle",
        "health",
        "jobs",
        "keyring",
        "pauses",
        "queues",
        "schedules",
        "send",
        "submit",
        "submit_many",
        "workers",
    ],
    "Client": [
        "audit",
        "close",
        "dead_letters",
        "erase",
        "handle",
        "health",
        "jobs",
        "pauses",
        "queues",
        "schedules",
        "submit",
        "submit_many",
        "workers",
    ],
    "BatchContext": [
        "cancelled",
        "complete",
        "deadline",
        "fail",
        "job",
        "jobs",
        "log",
        "progress",
        "queue",
        "raise_if_cancelled",
        "type",
    ],
    "JobContext": [
        "as_of",
        "attempt",
        "cancelled",
        "deadline",
        "id",
        "log",
        "max_attempts",
        "progress",
        "queue",
        "raise_if_cancelled",
        "submit",
        "tenant",
        "type",
    ],
    "JobHandle": [
        "cancel",
        "history",
        "id",
        "is_duplicate",
        "progress",
        "result",
        "state",
        "type",
        "wait",
    ],
}
"""The names that completion shows after a dot: the calls and settings of users alone."""


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_object_shows_exactly_these_attributes(name: str) -> None:
    app = headgate.App("shop")
    backend = headgate.testing.MemoryBackend(app)
    client = headgate.Client(app, backend=backend)
    made = {
        "App": app,
        "AsyncClient": headgate.AsyncClient(app, backend=backend),
        "Client": client,
        "BatchContext": headgate.BatchContext,
        "JobContext": headgate.JobContext,
        "JobHandle": client.handle("0196a2b4-0000-7000-8000-000000000001"),
    }
    assert [each for each in dir(made[name]) if not each.startswith("_")] == ATTRIBUTES[name]
