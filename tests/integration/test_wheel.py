"""The wheel that users install, in a project with its own ``jobs/``, ``infra/`` and the like."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from headgate import App, Priority
from headgate.jobs.aws.provision import provision
from tests.support.environment import with_test_credentials
from tests.support.users_project import (
    APP_PATH,
    OWN_PACKAGES,
    Project,
    make_project,
)
from tests.support.workers import WorkerProcess, environment

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "typing" / "samples.py"


# --- contents ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("sdist")
    run([sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", target])
    [built] = target.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel_of(ROOT, tmp_path_factory.mktemp("wheel"))


def wheel_of(source: Path, target: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", target, source])
    [built] = target.iterdir()
    return built


def run(argv: list[str | Path]) -> None:
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_headgate_is_the_only_name_that_the_wheel_installs(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in names_in(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"headgate"}


def test_the_wheel_has_every_file_of_the_packages_and_the_mark_of_types(wheel: Path) -> None:
    tracked = [path for path in (ROOT / "headgate").rglob("*.py") if path.is_file()]
    for package in OWN_PACKAGES:
        tracked += (ROOT / "headgate" / package).resolve().rglob("*.py")
    installed = names_in(wheel)
    assert {name for name in installed if name.endswith(".py")} == {
        str("headgate" / path.relative_to(ROOT / "headgate"))
        if path.is_relative_to(ROOT / "headgate")
        else str("headgate" / path.relative_to(ROOT))
        for path in tracked
    }
    console = ROOT / "ops" / "console"
    shown = [*(console / "templates").iterdir(), *(console / "static").iterdir()]
    assert {str("headgate" / path.relative_to(ROOT)) for path in shown} <= installed
    assert {
        "headgate/py.typed",
        "headgate/lambdas/requirements.txt",
        "headgate/ops/dashboards/grafana.json",
    } <= installed


def test_the_sources_hold_files_in_place_of_links_and_make_the_same_wheel(
    sdist: Path, wheel: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert not [member.name for member in members if member.issym() or member.islnk()]
    tops = {member.name.split("/")[1] for member in members}
    assert "headgate" in tops
    assert not tops & set(OWN_PACKAGES)
    assert names_in(wheel_of(sdist, tmp_path)) == names_in(wheel)


# --- in a project with the same names ------------------------------------------------------------


@pytest.fixture(scope="module")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("user") / "letters", wheel)


def test_a_project_imports_its_own_packages_and_the_installed_ones(project: Project) -> None:
    ours = [f"headgate.{name}" for name in OWN_PACKAGES]
    imported = ["headgate", *ours, *OWN_PACKAGES]
    code = f"import {', '.join(imported)}; print(*[m.__file__ for m in ({', '.join(imported)})])"
    files = dict(zip(imported, map(Path, project.run("-c", code).split()), strict=True))
    environment = project.python.parents[1]
    assert all(files[name].is_relative_to(environment) for name in ("headgate", *ours))
    assert all(files[name] == project.root / name / "__init__.py" for name in OWN_PACKAGES)


def test_its_tests_run_jobs_by_the_test_kit(project: Project) -> None:
    assert "1 passed" in project.run("-m", "pytest", "-p", "no:cacheprovider", "tests")


async def test_a_worker_runs_its_jobs_also_in_a_child_process(
    project: Project, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    app = App("letters", stage="wheel")
    for queue in ("mail", "post"):
        app.queue(queue, priorities=[Priority.NORMAL])
    await provision(app.topology, endpoint_url=server)
    env = environment(server, "wheel", tmp_path)
    async with WorkerProcess(
        "--queues",
        "mail",
        app=APP_PATH,
        env=env | {"PYTHONSAFEPATH": "1"},  # as when the command is run by its own script
        python=project.python,
        directory=project.root,
    ) as worker:
        written, bound = map(int, project.run("-m", "ops.write", env=env).split())
        assert written == worker.pid
        assert bound != worker.pid


# --- synthesized ---------------------------------------------------------------------------------


def queues_in(assembly: Path) -> set[str]:
    """Return the names of the jobs' queues in the only template of an assembly."""
    [template] = assembly.glob("*.template.json")
    resources = json.loads(template.read_text())["Resources"].values()
    return {
        resource["Properties"]["QueueName"]
        for resource in resources
        if resource["Type"] == "AWS::SQS::Queue"
    }


@pytest.mark.parametrize("module", ["infra.app", "headgate.infra.app"])
def test_its_cdk_app_and_headgates_synthesize_its_jobs(
    module: str, project: Project, tmp_path: Path
) -> None:
    pytest.importorskip("aws_cdk")
    context = json.loads((project.root / "cdk.json").read_text())["context"]
    env = {
        # As CDK's command line passes them.
        "CDK_CONTEXT_JSON": json.dumps(context),
        "CDK_OUTDIR": str(tmp_path),
        "CDK_VALIDATION": "false",  # as in all tests: it only warns
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
    }
    project.run("-m", module, env=env)
    assert {"letters-mail-normal", "letters-post-normal"} <= queues_in(tmp_path)


# --- its types -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def typed(project: Project) -> Project:
    """The project with the samples, whose expected errors are marked by comments.

    Where an expected error does not come, both checkers report its comment.
    """
    shutil.copy(SAMPLES, project.root / "samples.py")
    return project


def finds_nothing(typed: Project, *argv: str | Path) -> None:
    # Without PYTHONPATH, which could put a checkout in place of the installed package.
    env = {name: os.environ[name] for name in ("HOME", "PATH")}
    done = subprocess.run(argv, cwd=typed.root, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_strict_agrees_with_it_and_with_each_line_of_the_samples(
    typed: Project, tmp_path: Path
) -> None:
    mypy = (sys.executable, "-m", "mypy", "--python-executable", typed.python)
    finds_nothing(typed, *mypy, "--cache-dir", tmp_path, ".")


def test_pyright_agrees_with_both_too(typed: Project) -> None:
    finds_nothing(typed, "node", pyright(), "--pythonpath", typed.python)


def pyright() -> Path:
    """Return pyright's program; without it the test is skipped, but fails on CI."""
    found = ROOT / "node_modules" / "pyright" / "index.js"
    if found.exists():
        return found
    reason = "pyright is not installed: npm ci"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; CI has to check with it")
    pytest.skip(reason)
