"""The layers of imports. Imports only go down, and so do those for type checkers alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.imports import Graph, circles, imported_by, module_graph, package_graph

ROOT = Path(__file__).parents[2]

PACKAGES: dict[str, set[str]] = {
    "jobs": set(),
    "infra": {"jobs"},
    "lambdas": {"jobs"},
    "workers": {"jobs"},
    "ops": {"infra", "jobs", "lambdas", "workers"},
}
"""Each package with those that it may import. Nothing imports ops."""

FLOORS: list[str] = [
    "errors",
    "values",
    "retry",
    "core",
    "messages",
    "aws",
    "records",
    "handles",
    "definitions",
    "schedules",
    "submission",
    "deployment",
    "execution",
    "dead_letters",
    "client",
    "testing",
]
"""The packages of `jobs`; each imports only from those above it in this list."""

FAR_FROM_AWS = {"records", "schedules", "deployment", "execution", "dead_letters"}
"""Packages that run over ports, and must not even know that AWS has an SDK."""

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
    "headgate.infra",
    "headgate.jobs.client.async_client",
    "headgate.jobs.aws",
    "headgate.jobs.testing",
    "headgate.lambdas",
    "headgate.ops",
    "rich",
    "sqlite3",
    "ssl",
    "typer",
    "headgate.workers",
}
"""Modules that a web service that only submits must not load until it submits."""


BACK_FOR_TYPES = {
    # A job type's handler takes a context, whose `submit` takes a job type.
    "jobs.definitions.handlers.context": {"jobs.definitions.job_type"},
}
"""Imports for type checkers that close a circle, each with its reason; none leaves its package."""


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@cache
def imports_of(path: Path, *, for_types: bool = True) -> set[str]:
    return set(imported_by(ast.parse(path.read_text()), for_types=for_types))


def floor_of(path: Path) -> str:
    """Return the first part of a module's name below `jobs`."""
    return path.relative_to(ROOT / "jobs").parts[0].removesuffix(".py")


def parts_of(path: Path, *, below: str) -> set[str]:
    """Return what a file imports of a package, by the names directly below it."""
    prefix = f"{below}."
    names = (name for name in imports_of(path) if name.startswith(prefix))
    return {name.removeprefix(prefix).partition(".")[0] for name in names}


def test_a_package_imports_only_those_below_it() -> None:
    wrong = {
        str(path.relative_to(ROOT)): others
        for package, below in PACKAGES.items()
        for path in sources(package)
        if (others := parts_of(path, below="headgate") & PACKAGES.keys() - below - {package})
    }
    assert wrong == {}


def test_a_package_of_jobs_imports_only_those_above_it() -> None:
    wrong = {
        str(path.relative_to(ROOT)): others
        for path in sources("jobs")
        if floor_of(path) != "__init__"
        if (others := parts_of(path, below="headgate.jobs") - allowed_on(floor_of(path)))
    }
    assert wrong == {}


def allowed_on(floor: str) -> set[str]:
    """Return the floors that one floor may import, itself among them."""
    above = set(FLOORS[: FLOORS.index(floor)])
    if floor in FAR_FROM_AWS:
        above.discard("aws")
    return above | {floor}


def test_an_integration_stands_on_jobs_and_nothing_else_of_headgate() -> None:
    paths = sources("headgate/contrib")
    assert paths
    parts = {part for path in paths for part in parts_of(path, below="headgate")}
    assert not parts & PACKAGES.keys() - {"jobs"}


def test_every_package_of_jobs_has_its_floor() -> None:
    assert sorted({floor_of(path) for path in sources("jobs")} - {"__init__"}) == sorted(FLOORS)


def test_no_modules_and_no_packages_import_one_another() -> None:
    modules = module_graph(ROOT, for_types=False)
    assert not circles(modules)
    assert not circles(package_graph(modules))


def test_imports_for_type_checkers_make_no_circles_either() -> None:
    modules = module_graph(ROOT, for_types=True)
    assert not circles(package_graph(modules))
    assert not circles(without_deliberate(modules))


def without_deliberate(modules: Graph) -> Graph:
    assert all(targets <= modules[name] for name, targets in BACK_FOR_TYPES.items())
    return {name: targets - BACK_FOR_TYPES.get(name, set()) for name, targets in modules.items()}


def test_only_jobs_aws_touches_an_aws_sdk() -> None:
    users = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in sources(package)
        if {name.split(".")[0] for name in imports_of(path, for_types=False)} & SDKS
    }
    assert users
    assert all(user.startswith("jobs/aws/") for user in users), users


@pytest.mark.parametrize(
    "statement",
    [
        "import headgate",
        "from headgate import App, Client",
        (
            "from headgate import App, Client; "
            "Backend = type('Backend', (), {'__getattr__': lambda self, _name: self}); "
            "Client(App('shop'), backend=Backend())"
        ),
    ],
    ids=["headgate", "Client", "a client of a given backend"],
)
def test_headgate_in_a_fresh_interpreter_loads_nothing_heavy(statement: str) -> None:
    code = f"import sys; {statement}; print(*sys.modules)"
    answered = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert answered.returncode == 0, answered.stderr
    assert not set(answered.stdout.split()) & HEAVY
