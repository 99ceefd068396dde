"""The bridge function's bundle holds what the bridge needs, and little else."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import App, Priority
from headgate.infra.functions import bundling, pip_install
from headgate.infra.functions.pip_install import Platform
from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.definitions.event_rules.event_rule import event_input
from headgate.jobs.deployment.sweep_plan import plan_input, sweep_plan
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.messages.envelope import parse
from headgate.jobs.schedules.firing import schedule_input
from headgate.jobs.schedules.routes import Routes
from tests.infra.conftest import Params
from tests.infra.test_stack import FIRED
from tests.support.environment import REGION, with_test_credentials
from tests.support.servers import running_server

LIMIT_MB = 15
OF_LAMBDAS_RUNTIME = ("boto3", "botocore", "s3transfer", "dateutil", "six", "urllib3")

INVOKE = """
import json, sys
sys.path[:0] = [{bundle!r}, {runtime!r}]
from headgate.lambdas.{module} import handler

assert not any(name in sys.modules for name in ("boto3", "asyncio"))

class Context:
    aws_request_id = "request-1"

answer = handler(json.loads(sys.stdin.read()), Context())
print(json.dumps(answer))
"""


ROUTES = Routes(groups={}, runs_from={})


@pytest.fixture(scope="session")
def for_lambda(app: App, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("for-lambda")
    bundling.functions_bundle(Routes.of(app)).build(target, pip_install.for_lambda())
    return target


@pytest.fixture(scope="session")
def for_this_machine(app: App, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("for-this-machine")
    bundling.functions_bundle(Routes.of(app)).build(target, pip_install.for_this_machine())
    return target


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules that Lambda's runtime brings, and nothing else of this environment."""
    target = tmp_path_factory.mktemp("runtime")
    for name in OF_LAMBDAS_RUNTIME:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        installed = Path(spec.origin)
        source = installed.parent if installed.name == "__init__.py" else installed
        (target / source.name).symlink_to(source)
    return target


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with running_server("moto") as url:
        yield url


def files(bundle: Path) -> list[str]:
    return sorted(
        path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()
    )


def test_the_bundle_has_the_packages_and_no_leftovers(for_lambda: Path) -> None:
    bytecode = {"__pycache__"}  # where there is a Python of Lambda's version to compile it
    assert {path.name for path in for_lambda.iterdir()} - bytecode == {
        "annotated_types",
        "aws_lambda_powertools",
        "headgate",
        "jmespath",
        "pydantic",
        "pydantic_core",
        "typing_extensions.py",
        "typing_inspection",
    }
    ours = {name.split("/")[1] for name in files(for_lambda) if name.startswith("headgate/")}
    assert ours - bytecode == {
        *("__init__.py", "errors.py", "events.py", "jobs", "lambdas", "sentry.py")
    }
    assert "headgate/jobs/testing/__init__.py" not in files(for_lambda)
    assert "headgate/lambdas/routes.json" in files(for_lambda)
    assert not [name for name in files(for_lambda) if name.endswith("RECORD")]


def test_binaries_are_of_lambdas_platform(for_lambda: Path) -> None:
    binaries = [name for name in files(for_lambda) if ".so" in name]
    assert binaries
    assert all("cpython-313-aarch64-linux" in name for name in binaries)


def test_the_zip_is_small(
    for_lambda: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    archive = tmp_path / "bundle.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name in files(for_lambda):
            zipped.write(for_lambda / name, name)
    size_mb = archive.stat().st_size / 1e6
    record_property("zipped_mb", round(size_mb, 2))
    assert size_mb < LIMIT_MB


def _of_schedule(app: App) -> tuple[dict[str, Any], str]:
    """Return the bridge's input when a schedule fires, and the queue that its job goes to."""
    event = schedule_input(app, app.find_type("daily-report")) | FIRED
    return event, event["queue_name"]


def _of_event() -> tuple[dict[str, Any], str]:
    """Return the same for an event, to a queue that the schedule doesn't feed."""
    app = App("shop", stage="test")
    job = app.define("send-email", Params, priority=Priority.HIGH)
    app.event_rule("placed", pattern={"source": ["shop"]}, job=job)
    happened = {"id": "1", "time": "2026-03-01T08:00:00Z", "detail": {"days": 3}}
    template = event_input(app.topology, app.event_rules["placed"])
    event: dict[str, Any] = json.loads(
        template.replace("<aws.events.event.json>", json.dumps(happened))
    )
    return event, event["job"]["queue_name"]


@pytest.mark.parametrize("invoked_by", ["schedule", "event"])
async def test_the_bundled_handler_submits_a_job_in_a_clean_interpreter(
    app: App,
    invoked_by: str,
    for_this_machine: Path,
    runtime: Path,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    await provision(app.topology, endpoint_url=endpoint, region=REGION)
    event, queue = _of_schedule(app) if invoked_by == "schedule" else _of_event()
    script = INVOKE.format(module="bridge", bundle=str(for_this_machine), runtime=str(runtime))

    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(  # noqa: ASYNC221 - nothing else runs on this loop
        # -I and -S: neither this environment's packages nor this directory's
        [sys.executable, "-I", "-S", "-B", "-c", script],
        input=json.dumps(event),
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    async with AsyncSqsTransport(endpoint_url=endpoint) as sqs:
        [message] = await sqs.receive(queue, limit=1, wait_s=5)
    assert str(parse(message.body).id) == answer["job_id"]


def test_the_bundled_sweep_sweeps_in_a_clean_interpreter(
    app: App,
    for_this_machine: Path,
    runtime: Path,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    asyncio.run(provision(app.topology, endpoint_url=endpoint, region=REGION))
    script = INVOKE.format(
        module="sweep.handler", bundle=str(for_this_machine), runtime=str(runtime)
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("HEADGATE_TABLE", app.topology.table_name)
    monkeypatch.setenv("HEADGATE_BUCKET", "nothing-to-copy")
    monkeypatch.setenv("HEADGATE_TOPIC", "nothing-to-tell")
    monkeypatch.setenv("HEADGATE_TICKETS", "nothing-to-tell")
    monkeypatch.chdir(tmp_path)

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", script],
        input=json.dumps(plan_input(sweep_plan(app, has_bridge=False))),
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer == {"looked_at": 0, "new": 0, "saved": 0, "told": 0}


def test_the_same_sources_have_the_same_hash_and_others_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = pip_install.for_this_machine()
    before = bundling.functions_bundle(ROUTES).fingerprint(here)
    assert bundling.functions_bundle(ROUTES).fingerprint(here) == before

    left_out = shutil.ignore_patterns("__pycache__")  # where other processes write meanwhile
    ours = shutil.copytree(bundling._OURS, tmp_path / "headgate", ignore=left_out)
    (ours / "lambdas" / "__init__.py").write_text("changed = True\n")
    monkeypatch.setattr(bundling, "_OURS", ours)

    assert bundling.functions_bundle(ROUTES).fingerprint(here) != before


def test_other_routes_are_another_asset(app: App) -> None:
    here, routes = pip_install.for_this_machine(), Routes.of(app)
    ours = bundling.functions_bundle(routes).fingerprint(here)
    assert bundling.functions_bundle(Routes.of(app)).fingerprint(here) == ours
    assert bundling.functions_bundle(ROUTES).fingerprint(here) != ours


def test_a_failed_installation_is_an_error_that_quotes_the_installer(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no route to the index')"]

    failing = Platform(installer=lambda _target, _wanted: command, compiler=None)

    with pytest.raises(ConfigurationError, match="no route to the index"):
        bundling.functions_bundle(ROUTES).build(tmp_path, failing)


def test_without_pip_uv_installs_the_same_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr("shutil.which", lambda name: f"/opt/{name}")

    command = pip_install.for_lambda().installer(Path("target"), ["--require-hashes"])

    assert command[:3] == ["/opt/uv", "pip", "install"]
    assert "--require-hashes" in command


def test_without_pip_and_uv_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr("shutil.which", lambda _name: None)

    with pytest.raises(ConfigurationError, match="ensurepip"):
        pip_install.for_lambda()


def test_the_packages_are_found_where_they_are_installed() -> None:
    assert Path(headgate.__file__).parent == bundling._OURS
