"""Who may import whom. Imports only go down; what only a type checker reads is exempt."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PACKAGES: dict[str, set[str]] = {
    "jobs": set(),
    "infra": {"jobs"},
    "lambdas": {"jobs"},
    "workers": {"jobs"},
    "ops": {"infra", "jobs", "lambdas", "workers"},
}
"""Each package with those that it may import. Nothing imports ops."""

LAYERS: list[set[str]] = [
    {"testing"},  # the test kit puts everything together
    {"aio", "client", "recording"},  # what a submitter calls, and a worker
    {"aio_scheduling", "scheduling"},
    {"schedule_making", "schedule_reading"},
    {"schedule_book"},
    {"async_spooler", "handover", "inline", "spooler"},  # and what a submitter falls back on
    {"async_spool_sending", "fallback", "spool_sending"},
    {"spool_notes"},
    {"spool_file", "spool_inflow", "spool_window"},
    {"aio_registration", "execution", "spool", "spool_lease"},
    {"fetching", "once", "replacing"},
    {"calling", "registration"},
    {"desk", "reserving"},
    {"async_storing", "dead_letter_alerts", "reporting", "steps", "sweep_memory"},
    {"bridging", "dead_letter_reading", "storing"},
    {"delivery", "firing", "handle", "submission"},  # a delivery, a firing, a handle, a submission
    {"checks", "foreign", "locating", "progress", "results", "sweep_plan", "tables"},
    {"timeline"},
    {"app", "dead_letters"},
    {"eventing", "queue"},
    {"batcher", "delays", "job", "sending", "settlement"},
    {"large_results"},
    {"offloading"},
    {
        "batching",
        "dead_letter_copies",
        "event_log",
        "handler",
        "hooks",
        "journal",
        "late_starts",
        "messages",
        "options",
    },
    {"cancelling"},
    {"cancellation", "history"},
    {"state"},
    {"claims", "deliveries"},
    {"metric_names", "records", "retry", "serving", "uniqueness", "writes"},
    {
        "accepts",
        "aws",
        "backoff",
        "declared_starts",
        "deployment",
        "envelope",
        "events",
        "lives",
        "peeking",
    },
    {
        "classification",
        "context",
        "event_patterns",
        "json_paths",
        "limits",
        "resources",
        "retention",
        "returns",
        "schedules",
        "settings",
        "texts",
        "thresholds",
        "topology",
        "upgrades",
    },
    {"kinds"},
    {
        "clock",
        "errors",
        "json_values",
        "occurrences",
        "outcome",
        "ports",
        "spool_locks",
        "tracing",
        "turns",
    },  # these know nothing else of ours
]
"""The modules of `jobs` from top to bottom; each imports only from the layers below its own.

`jobs` itself, which collects the public names, stands above all. Only `aio`, `client` and
`tables` import `aws`, when they are to make a transport or a table of their own.
"""

SDKS = {
    "aiobotocore",
    "boto3",
    "botocore",
    "mypy_boto3_sqs",
    "types_aiobotocore_dynamodb",
    "types_aiobotocore_sqs",
}

HEAVY = {
    "aiobotocore",
    "aiohttp",
    "asyncio",
    "boto3",
    "botocore",
    "infra",
    "jobs.aio",
    "jobs.aio_registration",
    "jobs.async_storing",
    "jobs.aws",
    "jobs.testing",
    "lambdas",
    "ops",
    "rich",
    "sqlite3",
    "ssl",
    "typer",
    "workers",
}
"""What a web service that only submits must not carry until it submits."""


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imported_by(node: ast.AST) -> Iterator[str]:
    """The dotted names that some code imports, wherever in it."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.ImportFrom():
                raise AssertionError(f"a relative import: {ast.unparse(child)}")
            case _ if not is_type_checking(child):
                yield from imported_by(child)


def imports_of(path: Path) -> set[str]:
    return set(imported_by(ast.parse(path.read_text())))


def layer_of(unit: str) -> int:
    """0 for the lowest."""
    for height, units in enumerate(reversed(LAYERS)):
        if unit in units:
            return height
    raise AssertionError(f"jobs.{unit} stands in no layer: give it one in the table")


def unit_of(path: Path) -> str:
    """The first part of a module's name below `jobs`."""
    return path.relative_to(ROOT / "jobs").parts[0].removesuffix(".py")


@pytest.mark.parametrize(
    "path",
    [path for package in PACKAGES for path in sources(package)],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_package_imports_only_those_below_it(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    ours = {name.split(".")[0] for name in imports_of(path)} & PACKAGES.keys()
    assert ours <= PACKAGES[package] | {package}


@pytest.mark.parametrize(
    "path",
    [path for path in sources("jobs") if unit_of(path) != "__init__"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_module_of_jobs_imports_only_from_the_layers_below_its_own(path: Path) -> None:
    unit = unit_of(path)
    others = {name.split(".")[1] for name in imports_of(path) if name.startswith("jobs.")} - {unit}
    too_high = {other for other in others if layer_of(other) >= layer_of(unit)}
    assert not too_high, f"jobs.{unit} stands in layer {layer_of(unit)}"


def test_every_module_stands_in_exactly_one_layer() -> None:
    units = {unit_of(path) for path in sources("jobs")} - {"__init__"}
    listed = [unit for layer in LAYERS for unit in layer]
    assert sorted(listed) == sorted(units)


def test_only_jobs_aws_touches_an_aws_sdk() -> None:
    users = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in sources(package)
        if {name.split(".")[0] for name in imports_of(path)} & SDKS
    }
    assert users
    assert all(user.startswith("jobs/aws/") for user in users), users


@pytest.mark.parametrize("statement", ["import jobs", "from jobs import App, Client"])
def test_importing_jobs_in_a_fresh_interpreter_loads_nothing_heavy(statement: str) -> None:
    code = f"import sys; {statement}; print(*sys.modules)"
    answered = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert answered.returncode == 0, answered.stderr
    assert not set(answered.stdout.split()) & HEAVY
