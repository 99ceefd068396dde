"""A server module of Python as a child process that never outlives its parent."""

from __future__ import annotations

import os
import random
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

LOOPBACK = "127.0.0.1"
"""The only address that a server listens on."""

START_BOUND_S = 60.0
"""Default bound of the time to a server's first answer."""

_STOP_BOUND_S = 10.0
_POLL_S = 0.05
_TAIL = 4_000  # characters of the server's output that an error quotes
_PORTS_TRIED = 20

_PORTS = range(30_000, 32_768)
"""Ports that no system hands out by itself to whoever asks for any (RFC 6056): Linux begins at
32,768, others at 49,152."""

_INHERITED = ("HOME", "LANG", "LC_ALL", "PATH")
"""Environment variables that a server inherits: no AWS_*, which it would apply to itself."""

_INHERITED_BY_OURS = ("PYTHONPATH", "VIRTUAL_ENV")
"""Further ones, if it runs on this process's own interpreter."""

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
        python: The interpreter; None takes this process's own.
        port: The port; None, or one that is taken, stands for any free one.
        end_within_s: Seconds that the server has to end in order after SIGTERM; 0 kills it at once.
    """

    def __init__(
        self,
        module: str,
        *,
        ready_path: str,
        ready_status: HTTPStatus = HTTPStatus.OK,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        start_within_s: float = START_BOUND_S,
        prelude: Path | None = None,
        python: Path | None = None,
        port: int | None = None,
        end_within_s: float = 0,
    ) -> None:
        self._module = module
        self._python = str(python or sys.executable)
        self._wanted_port = port
        self._end_within_s = end_within_s
        self._prelude = prelude
        self._ready_path = ready_path
        self._ready_status = ready_status
        self._arguments = tuple(arguments)
        self._environment = dict(environment or {})
        self._start_within_s = start_within_s
        self._process: subprocess.Popen[bytes] | None = None
        self._home: Path | None = None
        self._port = 0
        self._reserved: socket.socket | None = None
        self.ended_in_order = True
        """False once it did not do what it does at its end: it died, or `stop` had to kill it."""

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
        return f"http://{LOOPBACK}:{self._port}"

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
        self._port, self._reserved = _reserve_port(self._wanted_port)
        self._home = Path(tempfile.mkdtemp(prefix="headgate-local-"))
        try:
            self._process = self._spawn(self._home)
            self._await_ready()
        except BaseException:
            self.stop()
            raise

    def ending(self) -> str:
        """Return how the server has ended by itself, with its output; empty while it runs."""
        if self._process is None or self._process.poll() is None:
            return ""
        return self._failure(f"ended with exit code {self._process.returncode}")

    def stop(self) -> None:
        """Stop the server and remove all its files. Idempotent, and safe before `start`."""
        process, self._process = self._process, None
        home, self._home = self._home, None
        reserved, self._reserved = self._reserved, None
        if process is not None:
            self.ended_in_order = _end(process, self._end_within_s)
        if reserved is not None:
            reserved.close()
        if home is not None:
            shutil.rmtree(home, ignore_errors=True)

    def _spawn(self, home: Path) -> subprocess.Popen[bytes]:
        def fill(text: str) -> str:
            return text.format(port=self._port, home=home)

        inherited = _INHERITED + (_INHERITED_BY_OURS if self._python == sys.executable else ())
        environment = {name: os.environ[name] for name in inherited if name in os.environ}
        environment |= {name: fill(value) for name, value in self._environment.items()}
        arguments = [fill(argument) for argument in self._arguments]
        with self._log(home).open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own interpreter and a module named here
                [self._python, "-c", _LEASH, str(self._prelude or ""), self._module, *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=home,
                env=environment | {"TMPDIR": str(home)},
                start_new_session=True,
            )

    def _await_ready(self) -> None:
        deadline = time.monotonic() + self._start_within_s
        while not self._answers():
            if ending := self.ending():
                raise HeadgateError(ending)
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


def _reserve_port(wanted: int | None) -> tuple[int, socket.socket]:
    """Return a free port, and a socket to keep for as long as the port is to be used.

    The server binds the port a second later. Until then another server of ours would find it free,
    and then take the first one that answers there for its own. So the same number is bound for UDP
    too, which the server doesn't use, and which ends with this process. Nor is it a number that
    the system gives to another process meanwhile, for a connection or to listen.

    Args:
        wanted: the port to take if it is free; None takes any.

    Raises:
        HeadgateError: no port is free.
    """
    ours = random.Random().sample(_PORTS, _PORTS_TRIED)  # noqa: S311 - any will do
    for port in (wanted, *ours, *[0] * _PORTS_TRIED):
        if port is None:
            continue
        reserved = socket.socket(type=socket.SOCK_DGRAM)
        try:
            found = _free_port(port, reuse=port == wanted)
            reserved.bind((LOOPBACK, found))
        except OSError:
            reserved.close()
        else:
            return found, reserved
    raise HeadgateError("no port of this machine is free")


def _free_port(port: int, *, reuse: bool) -> int:
    """Return the port, or any free one in place of 0; raises OSError if it is taken.

    Args:
        port: the port.
        reuse: True to take one on which connections have just ended, too, as the server does.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        probe.bind((LOOPBACK, port))
        found: int = probe.getsockname()[1]
        return found


def _end(process: subprocess.Popen[bytes], within_s: float) -> bool:
    """End the server in order if it has time for that; then kill it, children included.

    Its stdin ends, and it kills its process group itself. Returns False if it took too long, or had
    ended before, and so not in order.
    """
    runs = process.poll() is None
    if within_s:
        with suppress(subprocess.TimeoutExpired, ProcessLookupError):
            process.terminate()
            process.wait(within_s)
    in_order = not within_s or (runs and process.returncode is not None)
    if process.stdin is not None:
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_BOUND_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return in_order
