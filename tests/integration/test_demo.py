"""`headgate demo` on a small scale: it passes on success, reports faults, and leaves nothing."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlparse

import pytest
from rich.console import Console

from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.errors import ConfigurationError, HeadgateError
from headgate.ops.demo import DemoOptions, run_demo
from tests.support.journal import GENEROUS_S
from tests.support.ports import NOWHERE

JOBS = 150

PROGRAM = """
import sys
from headgate.ops.demo import DemoOptions, run_demo
sys.exit(run_demo(DemoOptions(jobs=2000)))
"""


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The demo's temporary directory, in this process and in its children."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def _demo(*, timeout: timedelta = timedelta(minutes=4), terminal: bool = False) -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=100, force_terminal=terminal)
    code = run_demo(DemoOptions(jobs=JOBS, console=console, timeout=timeout))
    assert isinstance(console.file, io.StringIO)
    return code, console.file.getvalue()


def test_a_small_demo_passes_its_own_checks_and_leaves_nothing(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nor does it use the user's own account.
    monkeypatch.setenv("AWS_PROFILE", "production")  # no such profile: using it would raise
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", NOWHERE)
    monkeypatch.setenv("HTTP_PROXY", NOWHERE)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-real-token")
    before = dict(os.environ)
    code, output = _demo()
    assert "FAILED" not in output
    assert code == 0
    assert len(re.findall(r"^ +ok  ", output, re.MULTILINE)) == 9
    assert re.search(r"^ +\d+\.\d s  submitted", output, re.MULTILINE)
    assert list(temporary.iterdir()) == []
    assert dict(os.environ) == before


def test_on_a_terminal_the_progress_is_drawn_and_the_results_remain() -> None:
    code, output = _demo(terminal=True)
    assert code == 0
    assert "━" in output
    assert "picked up after" in output


def test_a_dead_letter_that_says_something_else_fails_the_demo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send = AsyncSqsTransport.send

    async def falsify(
        self: AsyncSqsTransport, queue: str, messages: Sequence[OutgoingMessage]
    ) -> list[EntryFailure]:
        if queue.endswith("-dlq"):
            messages = [
                OutgoingMessage(
                    body=each.body, attributes={**each.attributes, "Reason": "bad luck"}
                )
                for each in messages
            ]
        return await send(self, queue, messages)

    monkeypatch.setattr(AsyncSqsTransport, "send", falsify)
    code, output = _demo()
    assert code == 1
    assert "FAILED  every dead letter is in its queue and says why" in output


def test_a_lost_job_fails_the_demo_which_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send = AsyncSqsTransport.send
    lost: list[OutgoingMessage] = []

    async def lose_one(
        self: AsyncSqsTransport, queue: str, messages: Sequence[OutgoingMessage]
    ) -> list[EntryFailure]:
        if not lost and queue == "ecommerce-payments-critical":
            lost.append(messages[0])
            messages = messages[1:]
        return await send(self, queue, messages) if messages else []

    monkeypatch.setattr(AsyncSqsTransport, "send", lose_one)
    code, output = _demo(timeout=timedelta(seconds=60))
    assert code == 1
    assert re.search("FAILED  every job ended exactly once: not ended: .*1 capture-payment", output)


def test_an_internal_error_is_raised_once_everything_has_been_removed(
    monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setattr("headgate.ops.demo.submitting.Bridge.submit", _fails)
    with pytest.raises(HeadgateError, match="the bridge is broken"):
        _demo()
    assert list(temporary.iterdir()) == []


def _fails(*_: object) -> bool:
    raise HeadgateError("the bridge is broken")


def test_what_the_demo_needs_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ministack", None)
    with pytest.raises(ConfigurationError, match="pip install ministack"):
        _demo()


def _processes_with(temporary: Path) -> list[str]:
    """Return the processes whose environment names that directory: the demo and its children."""
    mine = os.getpid()
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended meanwhile, or belongs to another user
            if str(temporary).encode() in environment.read_bytes():
                found.append(environment.parent.name)
    return [pid for pid in found if pid != str(mine)]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "SIGTERM"])
@pytest.mark.parametrize("after", ["starting a local AWS", "running on", "ended "])
def test_interrupted_at_any_time_it_leaves_no_process_no_port_and_no_file(
    temporary: Path, how: signal.Signals, after: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as demo:
        assert demo.stdout is not None
        output = ""
        for line in demo.stdout:
            output += line
            if after in line:
                break
        os.killpg(demo.pid, how)  # as a terminal does: the whole group
        output += demo.stdout.read()
        assert demo.wait(GENEROUS_S) == 130, output
    deadline = time.monotonic() + GENEROUS_S
    while (left := _processes_with(temporary)) and time.monotonic() < deadline:
        time.sleep(0.02)  # what was killed may take a moment to be gone
    assert left == []
    assert "interrupted" in output
    assert "Traceback" not in output
    assert list(temporary.iterdir()) == []
    if found := re.search(r"http://\S+", output):
        address = urlparse(found[0])
        with socket.socket() as probe:
            assert probe.connect_ex((str(address.hostname), address.port or 0)) != 0
