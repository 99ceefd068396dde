"""The workers' image, built by its own steps without docker, runs jobs and stops in order."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from examples.shop import contracts as shop
from headgate import Client
from headgate.infra.fargate import worker_command
from headgate.jobs.aws.provision import provision
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from tests.support.dockerfile import Replay, Step, read_dockerfile
from tests.support.environment import REGION, with_test_credentials
from tests.support.journal import GENEROUS_S, until
from tests.support.ports import reserved_ports
from tests.support.servers import running_server

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "workers" / "Dockerfile"
STAGES = read_dockerfile(DOCKERFILE)
LAST = STAGES[-1]


def last(name: str) -> Step:
    """Return the last stage's only step of that name."""
    [step] = [step for step in LAST if step.name == name]
    return step


def test_hadolint_finds_nothing() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or "hadolint"
    done = subprocess.run([hadolint, str(DOCKERFILE)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_file_in_the_docs_is_this_one_without_headgate_from_source(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "worker-service.md").read_text()
    found = re.search(r"```dockerfile\n(.*?)```", page, re.DOTALL)
    assert found
    copy = tmp_path / "Dockerfile"
    copy.write_text(
        found[1]
        .replace("requirements-worker.txt", "workers/requirements.txt", 1)
        .replace("shop", "examples")
    )
    build, last_stage = read_dockerfile(copy)
    assert last_stage == LAST
    ours = STAGES[0]
    start = next(at for at, step in enumerate(ours) if "build-requirements" in step.text)
    end = next(at for at, step in enumerate(ours) if step.text.startswith("examples"))
    assert build == [*ours[:start], *ours[end:]]


def test_the_image_runs_as_nobody_and_an_init_hands_sigterm_on() -> None:
    assert last("USER").text == f"{worker_command.USER}:{worker_command.USER}"
    assert last("STOPSIGNAL").text == "SIGTERM"
    assert last("ENTRYPOINT").argv() == ["dumb-init", "--single-child", "--", "headgate"]
    assert last("CMD").argv() == ["worker"]
    assert last("VOLUME").argv() == ["/tmp"]  # noqa: S108 - the container's own


def test_every_base_image_is_pinned_by_its_digest() -> None:
    bases = {stage[0].text.split()[0] for stage in STAGES}
    assert len(bases) == 1, "what is compiled in one runs in the other"
    assert re.fullmatch(r".*/python:3\.\d+-slim@sha256:[0-9a-f]{64}", bases.pop())


def test_nothing_is_installed_that_is_not_pinned_with_its_hash() -> None:
    runs = [step.text for stage in STAGES for step in stage if step.name == "RUN"]
    installs = [line for run in runs for line in run.split("&&") if " install " in line]
    assert len(installs) == 3
    for install in installs:
        assert "--no-cache-dir" in install
        assert "--require-hashes" in install or "--no-index" in install


# --- a replay ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image() -> Iterator[Replay]:
    """The image's files, built and, if possible, owned by the user that the image names."""
    root = Path(tempfile.mkdtemp(prefix="headgate-image-"))
    try:
        python, user = _python_and_user()
        if user is not None:
            os.chown(root, user, user)
        replay = Replay(root, ROOT, python, user)
        replay.build(STAGES)
        yield replay
    finally:
        shutil.rmtree(root)


@pytest.fixture
def scratch(image: Replay) -> Iterator[Path]:
    """A folder in place of the volume at the container's /tmp; it ends with the test."""
    volume = Path(tempfile.mkdtemp(prefix="headgate-image-volume-"))
    try:
        owner = image.root.stat()
        os.chown(volume, owner.st_uid, owner.st_gid)
        yield volume
    finally:
        shutil.rmtree(volume)


def _python_and_user() -> tuple[str, int | None]:
    """Return a Python that the image's user can run, and that user, if this process is root.

    Otherwise return this Python, and None.
    """
    if os.geteuid() == 0:
        user = int(worker_command.USER)
        for python in (sys.executable, "/usr/bin/python3"):
            if _can_run(python, user):
                return python, user
    return sys.executable, None


def _can_run(python: str, user: int) -> bool:
    argv = [python, "-c", "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"]
    try:
        done = subprocess.run(argv, user=user, group=user, extra_groups=[], capture_output=True)
    except OSError:
        return False
    return done.returncode == 0


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    with running_server("ministack") as endpoint_url:
        yield endpoint_url


@pytest.fixture
def health_port() -> Iterator[int]:
    with reserved_ports() as port:
        yield port


def _is_used(volume: Path) -> bool:
    return any(volume.iterdir())


@pytest.mark.timeout(600)
async def test_a_container_runs_a_job_is_healthy_and_drains_on_sigterm(
    image: Replay,
    scratch: Path,
    aws: str,
    health_port: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_command, "HEALTH_PORT", health_port)
    with_test_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws)
    await provision(shop.app.topology, endpoint_url=aws)
    group = WorkerGroup(priorities=(shop.generate_report.priority,))
    before = {*image.root.rglob("*")}
    container = image.start(
        worker_command.command(group), _environment(aws) | {"TMPDIR": str(scratch)}
    )
    try:
        with Client(shop.app) as client:
            report = client.submit(shop.generate_report, shop.Report(format="json"))
            told = report.result(timeout=GENEROUS_S)
        assert image.call(worker_command.health_check(group)) == 0
        container.send_signal(signal.SIGTERM)
        log, _ = container.communicate(timeout=GENEROUS_S)
    finally:
        container.kill()
    assert told.endswith(".json")
    assert container.returncode == 0, log
    assert "everything was finished and settled" in log
    assert image.call(worker_command.health_check(group)) != 0
    assert {*image.root.rglob("*")} == before, "its root is read-only on ECS"
    assert _is_used(scratch), "what it writes goes to its volume"


@pytest.mark.timeout(600)
def test_a_container_that_is_stopped_as_it_starts_ends_at_once(image: Replay, aws: str) -> None:
    container = image.start(["worker"], _environment(aws))
    try:
        asyncio.run(until(lambda: _has_begun(container.pid)))
        container.send_signal(signal.SIGTERM)
        log, _ = container.communicate(timeout=GENEROUS_S)
    finally:
        container.kill()
    # By the worker itself, or by the kernel before its handler was installed.
    assert container.returncode in (0, 128 + signal.SIGTERM, -signal.SIGTERM), log
    assert "Traceback" not in log


def _has_begun(init: int) -> bool:
    """Return True once the init runs the program.

    A signal that comes while it forks is lost in its child, which then still has a handler of
    dumb-init's that does nothing.
    """
    return any(child.name() != "dumb-init" for child in psutil.Process(init).children())


def _environment(endpoint_url: str) -> dict[str, Any]:
    """Return the task definition's variables, and AWS's own."""
    return {
        "HEADGATE_APP": "examples.shop.app:app",
        "HEADGATE_STOP_TIMEOUT": "30",
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": REGION,
    }
