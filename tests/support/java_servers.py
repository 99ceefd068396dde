"""Third-party servers written in Java: ElasticMQ, and AWS's own DynamoDB Local.

Maven fetches each once, with its jars, into `.cache/java`. Run as a module, this fetches all of
them, or becomes one in the foreground: ``python -m tests.support.java_servers elasticmq 9324``,
with options of ``java`` after the port.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from headgate.ops.local.server_process import ServerProcess

_ROOT = Path(__file__).parents[2]
_CACHE = _ROOT / ".cache" / "java"
_JAVA = Path(__file__).parent / "java"
_FETCH_BOUND_S = 600.0
_START_BOUND_S = 120.0  # a JVM on a busy machine
_TRIES = 2
_TAIL = 2_000  # characters of Maven's output that an error quotes


class JavaServerUnavailable(Exception):
    """Java or Maven is missing, or a server could not be fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaServer:
    """One server: its Maven coordinates, and the arguments of ``java``."""

    group: str
    artifact: str
    version: str
    arguments: tuple[str, ...]
    """``{port}`` stands for the port, ``{jars}`` for the folder of its jars."""
    ready_path: str
    ready_status: HTTPStatus = HTTPStatus.OK

    def folder(self) -> Path:
        """The folder of its jars."""
        return _CACHE / f"{self.artifact}-{self.version}"


ELASTICMQ = JavaServer(
    group="org.elasticmq",
    artifact="elasticmq-server_2.13",
    version="1.6.14",
    arguments=(
        "-Dnode-address.host=*",  # queues' addresses follow the host that a request names
        "-Drest-sqs.bind-hostname=127.0.0.1",
        "-Drest-sqs.bind-port={port}",
        "-Drest-stats.enabled=false",
        "-Dpekko.http.server.max-connections=4096",
        # ElasticMQ's own default, 256 KiB, was SQS's limit before 2025.
        "-Dpekko.http.server.parsing.max-content-length=4m",
        "-cp",
        "{jars}/*",
        "org.elasticmq.server.Main",
    ),
    ready_path="/health",
)

DYNAMODB = JavaServer(
    group="com.amazonaws",
    artifact="DynamoDBLocal",
    version="2.6.1",
    arguments=(
        "-Djava.library.path={jars}",  # its SQLite
        "-cp",
        "{jars}/*",
        str(_JAVA / "LoopbackDynamoDb.java"),
        "-inMemory",
        "-sharedDb",
        "-disableTelemetry",
        "-port",
        "{port}",
    ),
    ready_path="/",
    ready_status=HTTPStatus.BAD_REQUEST,  # it requires a signature
)

JAVA_SERVERS = {"elasticmq": ELASTICMQ, "dynamodb": DYNAMODB}


def fetch(server: JavaServer) -> Path:
    """Return the folder of a server's jars, filled by Maven on first use.

    Safe to call in several processes at once: one of them has it fetched, and the others wait for
    that. The folder appears complete.

    Raises:
        JavaServerUnavailable: Java or Maven is missing, or Maven could not get it.
    """
    if shutil.which("java") is None:
        raise JavaServerUnavailable(f"{server.artifact} needs Java 17 or newer")
    folder = server.folder()
    if folder.exists():
        return folder
    if shutil.which("mvn") is None:
        raise JavaServerUnavailable(f"Maven (mvn) fetches {server.artifact}, and is not installed")
    _CACHE.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time():
        if not folder.exists():
            _fetch_into(folder, server)
    return folder


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Wait for other processes: Maven writes to a repository that all its runs share."""
    with (_CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        yield


def _fetch_into(folder: Path, server: JavaServer) -> None:
    for tried in range(1, _TRIES + 1):
        with tempfile.TemporaryDirectory(dir=_CACHE, prefix=".fetching-") as fetching:
            jars = Path(fetching) / "jars"
            try:
                _copy_jars(server, jars)
            except JavaServerUnavailable:
                if tried == _TRIES:
                    raise
            else:
                jars.rename(folder)
                return


def java_process(name: str, *options: str) -> ServerProcess:
    """Return a server of `JAVA_SERVERS`, fetched and ready to be started.

    Args:
        name: Its name there.
        options: Further ones of ``java``, ahead of the server's own.

    Raises:
        JavaServerUnavailable: as `fetch`.
    """
    server = JAVA_SERVERS[name]
    fetch(server)
    return ServerProcess(
        __name__,
        ready_path=server.ready_path,
        ready_status=server.ready_status,
        arguments=(name, "{port}", *options),
        environment={"PYTHONPATH": str(_ROOT)},
        start_within_s=_START_BOUND_S,
    )


def _copy_jars(server: JavaServer, jars: Path) -> None:
    command = [
        *("mvn", "--quiet", "--batch-mode", "--file", str(_JAVA / "pom.xml")),
        f"-Dserver.group={server.group}",
        f"-Dserver.artifact={server.artifact}",
        f"-Dserver.version={server.version}",
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={jars}",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_BOUND_S)
    except subprocess.TimeoutExpired as error:
        raise JavaServerUnavailable(f"Maven did not fetch {server.artifact} in time") from error
    if done.returncode != 0:
        output = (done.stdout + done.stderr)[-_TAIL:].strip()
        raise JavaServerUnavailable(f"Maven could not fetch {server.artifact}: {output}")


def _command(server: JavaServer, port: str, *options: str) -> Sequence[str]:
    jars = server.folder()
    own = (argument.format(port=port, jars=jars) for argument in server.arguments)
    return ["java", *options, *own]


def _main(arguments: Sequence[str]) -> int:
    if not arguments:
        for server in JAVA_SERVERS.values():
            fetch(server)
        return 0
    # `ServerProcess` kills the process group when its parent is gone, and so Java.
    name, *rest = arguments
    return subprocess.run(_command(JAVA_SERVERS[name], *rest)).returncode


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
