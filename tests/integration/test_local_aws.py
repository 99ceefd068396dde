from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import boto3
import pytest

from headgate.jobs.errors import ConfigurationError, HeadgateError
from headgate.ops.local.aws import LocalAws
from headgate.ops.local.server_process import ServerProcess
from tests.support.environment import REGION, with_test_credentials

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

# A process that runs a local AWS until it is ended, and prints its address.
PARENT = """
import signal
import time
from headgate.ops.local.aws import LocalAws
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
with LocalAws() as aws:
    print(aws.endpoint_url, aws.pid, flush=True)
    while True:  # one long wait would miss a signal that comes just before it begins
        time.sleep(0.1)
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The server's temporary directory, in this process and in its children."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def _pidfd(pid: int) -> Iterator[int]:
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_free(endpoint_url: str) -> bool:
    location = urlparse(endpoint_url)
    with socket.socket() as probe:
        return probe.connect_ex((str(location.hostname), location.port or 0)) != 0


def test_stopping_leaves_no_process_no_port_and_no_file(temporary: Path) -> None:
    aws = LocalAws()
    aws.stop()
    aws.start()
    aws.start()
    url, pid = aws.endpoint_url, aws.pid
    assert not _is_free(url)
    aws.stop()
    aws.stop()
    assert _is_free(url)
    assert list(temporary.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
@pytest.mark.skipif(sys.platform != "linux", reason="waits for a process by its pidfd")
def test_it_goes_with_its_parent_however_that_ends(temporary: Path, how: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        said = parent.stdout.readline().split()
        assert said, parent.stderr.read()
        url, pid = said
        with _pidfd(int(pid)) as server:
            os.killpg(parent.pid, how)  # as a terminal does: the whole group
            ended, _, _ = select.select([server], [], [], 30)
            assert ended
    assert _is_free(url)
    assert list(temporary.iterdir()) == []


def test_a_server_that_does_not_start_is_quoted(temporary: Path) -> None:
    with pytest.raises(HeadgateError, match="No module named"):
        ServerProcess("no_such_server", ready_path="/").start()
    assert list(temporary.iterdir()) == []


def test_a_server_that_does_not_answer_in_time_is_ended(temporary: Path) -> None:
    # It runs, but has no such path to answer on.
    deaf = ServerProcess("http.server", ready_path="/", arguments=["0"], start_within_s=0.3)
    with pytest.raises(HeadgateError, match=r"did not answer within 0\.3 s"):
        deaf.start()
    assert list(temporary.iterdir()) == []


def test_two_that_start_at_once_never_share_a_port(temporary: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    servers = [
        ServerProcess(
            "http.server",
            ready_path="/",
            arguments=["{port}", "--bind", "127.0.0.1"],
            port=port,
        )
        for _ in range(2)
    ]
    with ExitStack() as running, ThreadPoolExecutor() as pool:
        for server in servers:
            running.callback(server.stop)
        list(pool.map(ServerProcess.start, servers))
        assert len({server.endpoint_url for server in servers}) == 2
    assert list(temporary.iterdir()) == []


def test_its_port_is_none_that_the_system_gives_to_others(temporary: Path) -> None:
    servers = [
        ServerProcess("http.server", ready_path="/", arguments=["{port}", "--bind", "127.0.0.1"])
        for _ in range(2)
    ]
    with ExitStack() as running:
        ports = [urlparse(running.enter_context(each).endpoint_url).port or 0 for each in servers]
        assert len({*ports}) == 2
        assert all(30_000 <= port < 32_768 for port in ports)
    assert list(temporary.iterdir()) == []


def test_an_address_is_known_only_while_it_runs() -> None:
    with pytest.raises(ConfigurationError, match="not running"):
        _ = LocalAws().endpoint_url


def test_without_ministack_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="pip install ministack"):
        LocalAws().start()


def test_queues_that_were_kept_are_found_at_another_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    # A save that is cut short, as on a busy machine, leaves the state of the start.
    monkeypatch.setattr("headgate.ops.local.aws._SAVE_BOUND_S", 60.0)
    with LocalAws(state=tmp_path / "kept") as aws:
        first = aws.endpoint_url
        queue = _sqs(first).create_queue(QueueName="orders")["QueueUrl"]
        _sqs(first).send_message(QueueUrl=queue, MessageBody="hello")
    with LocalAws(state=tmp_path / "kept") as aws:  # any port, which is hardly the one before
        again = _sqs(aws.endpoint_url)
        found = again.get_queue_url(QueueName="orders")["QueueUrl"]
        assert urlparse(found).port == urlparse(aws.endpoint_url).port
        [message] = again.receive_message(QueueUrl=found, WaitTimeSeconds=20)["Messages"]
        assert message["Body"] == "hello"


def _sqs(endpoint_url: str) -> SQSClient:
    return boto3.client("sqs", endpoint_url=endpoint_url, region_name=REGION)


@pytest.mark.parametrize("killed", [True, False])
def test_a_server_that_was_killed_has_not_ended_in_order(killed: bool, tmp_path: Path) -> None:
    aws = LocalAws(state=tmp_path)
    assert aws.ending() == ""
    with aws:
        assert aws.ending() == ""
        if killed:
            os.killpg(aws.pid, signal.SIGKILL)
            os.waitid(os.P_PID, aws.pid, os.WEXITED | os.WNOWAIT)
            assert "'ministack' ended with exit code -9; its output: " in aws.ending()
    assert aws.ended_in_order is not killed
    assert aws.ending() == ""
