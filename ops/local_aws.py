"""A local AWS (MiniStack) as a child process that never outlives its parent.

Nothing it does affects anything beyond this machine or remains: it listens on the loopback only,
keeps its state in memory and its files in a directory of its own, and can't reach a docker daemon.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self

from headgate.jobs.errors import ConfigurationError, HeadgateError

_LOOPBACK = "127.0.0.1"
_START_BOUND_S = 60.0
_STOP_BOUND_S = 10.0
_POLL_S = 0.05
_TAIL = 4_000  # characters of the server's output that an error quotes

_INHERITED = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "VIRTUAL_ENV")
"""Environment variables that a server inherits: no AWS_*, which it would apply to itself."""

# Runs in the child: when the server's stdin ends, its parent has died, in whatever way, so it
# removes its files and kills its whole process group (including Lambda workers).
_LEASH = """
import os, runpy, shutil, signal, sys, threading

def hang_on():
    while os.read(0, 1):
        pass
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    os.killpg(os.getpid(), signal.SIGKILL)
threading.Thread(target=hang_on, name="leash", daemon=True).start()
prelude, module, *sys.argv[1:] = sys.argv[1:]
if prelude:
    runpy.run_path(prelude)["install"]()
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


class ServerProcess:
    """A Python server module in a child process, on a free port of the loopback.

    Constructing it starts nothing. It has a session of its own, so Ctrl-C in the terminal reaches
    only the parent, which then stops it; if the parent is killed, the server exits by itself.

    Args:
        module: The module that ``python -m`` would run.
        ready_path: A path that answers with ``ready_status`` once the server is ready.
        arguments: The command line; ``{port}`` stands for the port.
        environment: Variables for the server alone; ``{port}`` and ``{home}``, its directory, are
            replaced.
        ready_status: Other than 200 for a server that rejects unsigned requests.
        prelude: A Python file whose ``install()`` is called in the child before the server runs.
    """

    def __init__(
        self,
        module: str,
        *,
        ready_path: str,
        ready_status: HTTPStatus = HTTPStatus.OK,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        start_within_s: float = _START_BOUND_S,
        prelude: Path | None = None,
    ) -> None:
        self._module = module
        self._prelude = prelude
        self._ready_path = ready_path
        self._ready_status = ready_status
        self._arguments = tuple(arguments)
        self._environment = dict(environment or {})
        self._start_within_s = start_within_s
        self._process: subprocess.Popen[bytes] | None = None
        self._home: Path | None = None
        self._port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def endpoint_url(self) -> str:
        """The server's URL once started, as a value for ``AWS_ENDPOINT_URL``."""
        if self._process is None:
            raise ConfigurationError(f"the server {self._module!r} is not running")
        return f"http://{_LOOPBACK}:{self._port}"

    @property
    def pid(self) -> int:
        """The child's process id, once started."""
        if self._process is None:
            raise ConfigurationError(f"the server {self._module!r} is not running")
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it answers. Idempotent.

        Raises:
            ConfigurationError: the module is not installed.
            HeadgateError: it ended, or did not answer in time; its output is in the message.
        """
        if self._process is not None:
            return
        self._port = _free_port()
        self._home = Path(tempfile.mkdtemp(prefix="headgate-local-"))
        try:
            self._process = self._spawn(self._home)
            self._await_ready(self._process)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and remove all its files. Idempotent, and safe before `start`."""
        process, self._process = self._process, None
        home, self._home = self._home, None
        if process is not None:
            _end(process)
        if home is not None:
            shutil.rmtree(home, ignore_errors=True)

    def _spawn(self, home: Path) -> subprocess.Popen[bytes]:
        def fill(text: str) -> str:
            return text.format(port=self._port, home=home)

        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment |= {name: fill(value) for name, value in self._environment.items()}
        arguments = [fill(argument) for argument in self._arguments]
        with self._log(home).open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own interpreter and a module named here
                [sys.executable, "-c", _LEASH, str(self._prelude or ""), self._module, *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=home,
                env=environment | {"TMPDIR": str(home)},
                start_new_session=True,
            )

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self._start_within_s
        while not self._answers():
            if process.poll() is not None:
                raise HeadgateError(self._failure(f"ended with exit code {process.returncode}"))
            if time.monotonic() > deadline:
                raise HeadgateError(
                    self._failure(f"did not answer within {self._start_within_s:g} s")
                )
            time.sleep(_POLL_S)

    def _answers(self) -> bool:
        url = f"{self.endpoint_url}{self._ready_path}"
        # Ignores proxy settings: the loopback is never behind a proxy.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(url, timeout=5) as response:
                return bool(response.status == self._ready_status)
        except urllib.error.HTTPError as refusal:
            refusal.close()
            return refusal.code == self._ready_status
        except OSError:
            return False

    def _failure(self, what: str) -> str:
        output = ""
        if self._home is not None:
            output = self._log(self._home).read_text(errors="replace")[-_TAIL:].strip()
        return f"the local server {self._module!r} {what}; its output: {output or '(none)'}"

    @staticmethod
    def _log(home: Path) -> Path:
        return home / "server.log"


class LocalAws(ServerProcess):
    """MiniStack: SQS, DynamoDB, S3, EventBridge Scheduler and Lambda on this machine.

    Its schedules fire as AWS documents (`ops.local_schedules`).

    ::

        with LocalAws() as aws:
            os.environ["AWS_ENDPOINT_URL"] = aws.endpoint_url

    Any credentials are accepted. State is kept in memory, and lost when it stops.

    Raises:
        ConfigurationError: from `start`, when MiniStack is not installed.
    """

    def __init__(self, *, start_within_s: float = _START_BOUND_S) -> None:
        super().__init__(
            "ministack",
            ready_path="/_ministack/ready",
            environment=_MINISTACK,
            start_within_s=start_within_s,
            prelude=Path(__file__).with_name("local_schedules.py"),  # by path: doesn't import `ops`
        )

    def start(self) -> None:
        if importlib.util.find_spec("ministack") is None:
            raise ConfigurationError(
                "a local AWS needs MiniStack: pip install 'headgate[local]' (or point "
                "AWS_ENDPOINT_URL at a stack that already runs)"
            )
        super().start()


_MINISTACK = {
    "BIND_HOST": _LOOPBACK,  # the default is all addresses of the machine
    "GATEWAY_PORT": "{port}",
    "LOG_LEVEL": "WARNING",
    # In memory only; files, where unavoidable, go to the directory that `stop` removes.
    "PERSIST_STATE": "0",
    "S3_PERSIST": "0",
    "STATE_DIR": "{home}/state",
    "S3_DATA_DIR": "{home}/s3",
    # No listeners on other ports.
    "IOT_MTLS_ENABLED": "0",
    "SFTP_ENABLED": "0",
    # At start it removes containers that look like its own leftovers: never on a user's machine.
    "DOCKER_HOST": "unix://{home}/no-docker.sock",
    "LAMBDA_EXECUTOR": "local",
}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the server's stdin, and kill what has not ended in time, children included."""
    if process.stdin is not None:
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_BOUND_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
