"""`headgate dev`: the time from an edit to the first run of the new code, and to the end by Ctrl-C.

`python -m benchmarks.reload` measures both on this machine, a few times, and checks that nothing is
left. The figures depend on what else runs there, so no test compares them with anything.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from headgate import App, Client
from headgate.ops.dev.surroundings import REGION

ROOT = Path(__file__).parents[1]
_COMMAND = [sys.executable, "-c", "from headgate.ops import main; main()", "dev", "shop:app"]
_SUBMIT_EVERY_S = 0.02
_LONGEST_S = 600.0

_APP = """
from headgate import App

app = App("reload", priorities="all")

@app.job("tell")
def tell() -> None:
    print("edit", {edit}, "runs")

print("edit", {edit}, "loads in", __import__("os").getpid())
"""


@dataclass
class Heard:
    """The lines of a command, with the times at which they came."""

    lines: list[tuple[float, str]] = field(default_factory=list)
    _more: threading.Condition = field(default_factory=threading.Condition)

    def hear(self, stream: Iterator[str]) -> None:
        """Keep each line of a stream until it ends."""
        for line in stream:
            with self._more:
                self.lines.append((time.monotonic(), line))
                self._more.notify_all()

    def when(self, pattern: str) -> tuple[float, re.Match[str]]:
        """Wait for a line with a pattern; return its time, and the match."""
        ends_at = time.monotonic() + _LONGEST_S
        with self._more:
            while time.monotonic() < ends_at:
                for at, line in self.lines:
                    if found := re.search(pattern, line):
                        return at, found
                self._more.wait(_LONGEST_S)
        raise TimeoutError(f"no line has {pattern!r}: {''.join(line for _, line in self.lines)}")

    def endpoint(self) -> str:
        """Return the address of the local AWS."""
        return self.when(r"export AWS_ENDPOINT_URL=(\S+)")[1][1]


@contextmanager
def submitting(endpoint_url: str) -> Iterator[None]:
    """Submit jobs all the time, so that the first run waits for nothing but the new code."""
    os.environ.update(
        AWS_ENDPOINT_URL=endpoint_url,
        AWS_REGION=REGION,
        AWS_ACCESS_KEY_ID="headgate-dev",
        AWS_SECRET_ACCESS_KEY="headgate-dev",  # noqa: S106 - nobody's
    )
    app, over = App("reload", priorities="all"), threading.Event()
    tell = app.define("tell", None)

    def submit() -> None:
        with Client(app) as client:
            while not over.wait(_SUBMIT_EVERY_S):
                client.submit(tell)

    thread = threading.Thread(target=submit, name="submitting")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def measured(folder: Path, edits: int) -> Iterator[tuple[str, float]]:
    """Run `headgate dev` in a folder; yield what was measured, by name, in seconds."""
    source, heard = folder / "shop.py", Heard()
    source.write_text(_APP.format(edit=0))
    (temporary := folder / "tmp").mkdir()
    began = time.monotonic()
    with subprocess.Popen(  # noqa: S603 - Headgate's own command
        _COMMAND,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(temporary),
        },
    ) as process:
        try:
            yield from _times(process, heard, source, began, edits)
        finally:
            process.terminate()
    _check_nothing_is_left(heard, temporary)


def _times(
    process: subprocess.Popen[str], heard: Heard, source: Path, began: float, edits: int
) -> Iterator[tuple[str, float]]:
    assert process.stdout is not None  # noqa: S101 - a pipe
    threading.Thread(target=heard.hear, args=(process.stdout,), daemon=True).start()
    yield "from the command to ready", heard.when("ready: reload")[0] - began
    with submitting(heard.endpoint()):
        heard.when("edit 0 runs")
        for edit in range(1, edits + 1):
            edited = time.monotonic()
            source.write_text(_APP.format(edit=edit))
            yield "from an edit to its import", heard.when(f"edit {edit} loads")[0] - edited
            yield "from an edit to its first run", heard.when(f"edit {edit} runs")[0] - edited
    stopped = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.wait()
    yield "from Ctrl-C to the end", time.monotonic() - stopped


def _check_nothing_is_left(heard: Heard, temporary: Path) -> None:
    endpoint = heard.endpoint()
    with suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", urlsplit(endpoint).port or 80)).close()
        raise RuntimeError(f"{endpoint} still answers")
    for _, line in heard.lines:
        if found := re.search(r"loads in (\d+)", line):
            try:
                os.kill(int(found[1]), 0)
            except ProcessLookupError:
                continue
            raise RuntimeError(f"the process {found[1]} is left")
    if left := [*temporary.iterdir()]:
        raise RuntimeError(f"files are left: {left}")


def main() -> None:
    """Print the medians and the longest times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=5)
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="headgate-reload-") as folder:
        for name, seconds in measured(Path(folder), parser.parse_args().edits):
            times.setdefault(name, []).append(seconds)
    for name, found in times.items():
        print(f"{name:30} {median(found):5.2f} s (longest {max(found):.2f} s, of {len(found)})")
    print("no process, no port and no file is left")


if __name__ == "__main__":
    main()
