"""The worker processes of other tests."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ports import NOWHERE
from tests.support.workers import WorkerProcess, environment

# A process that runs a worker until it is killed, and prints how to find it.
PARENT = """
import asyncio, pathlib, sys
from tests.support.workers import WorkerProcess, environment

async def main():
    env = environment(sys.argv[1], "test", pathlib.Path(sys.argv[2]))
    async with WorkerProcess("--queues", "steady", env=env) as worker:
        print(worker.pid, flush=True)
        await asyncio.sleep(3600)
asyncio.run(main())
"""


async def test_a_worker_ends_with_its_test_and_shows_its_log_even_if_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = WorkerProcess("--queues", "steady", env=environment(NOWHERE, "test", tmp_path))
    with pytest.raises(RuntimeError):
        async with worker:
            raise RuntimeError("the test has failed")
    assert not worker.alive
    assert "working on fixture" in capsys.readouterr().err


async def test_a_worker_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    env = environment(NOWHERE, "test", tmp_path)
    with pytest.raises(EOFError, match="did you mean 'steady'"):
        async with WorkerProcess("--queues", "stedy", env=env):
            pytest.fail("it has started")


@pytest.mark.skipif(sys.platform != "linux", reason="waits for a process by its pidfd")
def test_a_worker_goes_when_its_test_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, NOWHERE, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
        ended, _, _ = select.select([worker], [], [], 30)
        os.close(worker)
        assert ended
