"""A local AWS (MiniStack) as a child process that never outlives its parent.

Nothing it does affects anything beyond this machine or remains: it listens on the loopback only,
keeps its state in memory and its files in a directory of its own, and can't reach a docker daemon.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

from headgate.jobs.errors import ConfigurationError
from headgate.ops.local.server_process import LOOPBACK, START_BOUND_S, ServerProcess
from headgate.ops.local.state_folder import KEPT

_SAVE_BOUND_S = 7.0
"""Seconds for writing the state. It takes a fraction of one, but for a busy machine. Whoever ends a
process in order, as docker does, waits for ten in all."""

SCHEDULES = "HEADGATE_FIRES_SCHEDULES"
"""Variable by which MiniStack's process knows whether to fire schedules; see
`ops.local.schedules`."""


class LocalAws(ServerProcess):
    """MiniStack: SQS, DynamoDB, S3, EventBridge Scheduler and Lambda on this machine.

    Its schedules fire as AWS documents (`ops.local.schedules`).

    ::

        with LocalAws() as aws:
            os.environ["AWS_ENDPOINT_URL"] = aws.endpoint_url

    Any credentials are accepted. State is kept in memory, and lost when it stops, unless it gets a
    folder for it.

    Args:
        start_within_s: Seconds to wait for its first answer.
        python: An interpreter that has MiniStack; None takes this process's own.
        port: As in `ServerProcess`.
        state: The folder from which state is read at the start, and into which it is written by
            `stop`; None keeps none.
        fires_schedules: False leaves the firing of schedules to somebody else.

    Raises:
        ConfigurationError: from `start`, when MiniStack is not installed.
    """

    def __init__(
        self,
        *,
        start_within_s: float = START_BOUND_S,
        python: Path | None = None,
        port: int | None = None,
        state: Path | None = None,
        fires_schedules: bool = True,
    ) -> None:
        super().__init__(
            "ministack",
            ready_path="/_ministack/ready",
            environment=_MINISTACK
            | {SCHEDULES: "1" if fires_schedules else "0"}
            | ({} if state is None else _kept_in(state)),
            start_within_s=start_within_s,
            prelude=Path(__file__).with_name("schedules.py"),  # by path: doesn't import `ops`
            python=python,
            port=port,
            end_within_s=0 if state is None else _SAVE_BOUND_S,
        )
        self._is_ours = python is None
        self._state = state

    def start(self) -> None:
        if self._is_ours and importlib.util.find_spec("ministack") is None:
            raise ConfigurationError("a local AWS needs MiniStack: pip install ministack")
        super().start()

    def _spawn(self, home: Path) -> subprocess.Popen[bytes]:
        if self._state is not None:
            _move_queues(self._state / KEPT / "sqs.json", self._port)
        return super()._spawn(home)


def _move_queues(kept: Path, port: int) -> None:
    """Have queues that were kept at another port be found at this one.

    MiniStack keeps each under its URL, and takes the same name at another port for another queue.
    """
    if not kept.exists():
        return
    text = kept.read_text(encoding="utf-8")
    moved = re.sub(r"(http://localhost:)\d+(/\d{12}/)", rf"\g<1>{port}\g<2>", text)
    if moved != text:
        (draft := kept.with_suffix(".moved")).write_text(moved, encoding="utf-8")
        draft.replace(kept)


_MINISTACK = {
    "BIND_HOST": LOOPBACK,  # the default is all addresses of the machine
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


def _kept_in(state: Path) -> dict[str, str]:
    folder = str(state.resolve()).replace("{", "{{").replace("}", "}}")
    return {
        "PERSIST_STATE": "1",
        "S3_PERSIST": "1",
        "STATE_DIR": f"{folder}/{KEPT}",
        "S3_DATA_DIR": f"{folder}/s3",
    }
