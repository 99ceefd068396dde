"""Workers that are told to stop while they start."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.workers.process.exit_codes import EXIT_CLEAN
from tests.support.journal import GENEROUS_S
from tests.support.ports import NOWHERE
from tests.support.workers import WorkerProcess, environment

ROOT = Path(__file__).parents[2]
SLOW = "tests.support.slow_app:app"
WORKER = [sys.executable, "-c", "from headgate.ops import main; main()", "worker"]
AS_PROCESS_1 = ["unshare", "--fork", "--pid", "--kill-child"]


def _can_be_process_1() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*AS_PROCESS_1, "true"], capture_output=True).returncode == 0


async def _spawn(*argv: str, tmp_path: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *argv,
        stderr=asyncio.subprocess.PIPE,
        env=environment(NOWHERE, "test", tmp_path) | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
    )


def _only_child(pid: int) -> int:
    [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


async def _outcome(process: asyncio.subprocess.Process) -> tuple[int | None, str]:
    """Return the exit code and the remaining output of a process, killed if it does not end."""
    try:
        async with asyncio.timeout(GENEROUS_S):
            _, said = await process.communicate()
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
    return process.returncode, said.decode()


@pytest.mark.skipif(not _can_be_process_1(), reason="needs a PID namespace of its own")
async def test_process_1_ends_on_sigterm_while_its_app_is_imported(tmp_path: Path) -> None:
    outside = await _spawn(*AS_PROCESS_1, *WORKER, SLOW, tmp_path=tmp_path)
    assert outside.stderr is not None
    assert b"importing in process 1\n" in await outside.stderr.readline()
    os.kill(_only_child(outside.pid), signal.SIGTERM)
    code, said = await _outcome(outside)
    assert code == EXIT_CLEAN, said
    assert "SIGTERM before the worker began" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_while_the_app_is_imported_ends_it_cleanly(
    tmp_path: Path, number: signal.Signals
) -> None:
    worker = await _spawn(*WORKER, SLOW, tmp_path=tmp_path)
    assert worker.stderr is not None
    await worker.stderr.readline()
    os.kill(worker.pid, number)
    code, said = await _outcome(worker)
    assert code == EXIT_CLEAN, said
    assert said.splitlines() == [
        f"headgate: {number.name} before the worker began: nothing to finish"
    ]


@pytest.mark.parametrize("after_ms", [0, 100, 400])
async def test_a_signal_at_any_moment_of_the_start_ends_it_without_a_trace(
    tmp_path: Path, after_ms: int
) -> None:
    """However far it has come by then, the outcome is the same."""
    worker = await _spawn(*WORKER, "tests.support.fixture_app:app", tmp_path=tmp_path)
    await asyncio.sleep(after_ms / 1000)
    os.kill(worker.pid, signal.SIGTERM)
    code, said = await _outcome(worker)
    # By the kernel, if Python had not yet reached our first line.
    assert code in (EXIT_CLEAN, -signal.SIGTERM), said
    assert "Traceback" not in said


async def test_a_worker_that_has_begun_stops_in_order(tmp_path: Path) -> None:
    """The early handlers have been replaced by then."""
    env = environment(NOWHERE, "test", tmp_path)
    async with WorkerProcess("--queues", "steady", env=env) as worker:
        worker.send(signal.SIGTERM)
        assert await worker.ended() == EXIT_CLEAN
        assert "everything was finished and settled" in worker.log
