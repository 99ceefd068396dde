"""Types the quickstart as its page has it, as somebody would who has Python alone, and times it.

`python -m tests.docs.quickstart` builds the wheel, and starts in an empty folder with an empty
home, so that all is downloaded. What the page doesn't print literally (the lines for the other
terminal, the edit) it does as the page says.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quickstart.md"
LONGEST_S = 300.0
"""Seconds that the page promises: five minutes."""

_DONE = "headgate-quickstart-done"
_OWN_HOME = ("HEADGATE_", "AWS_", "PYTHON", "VIRTUAL_ENV", "XDG_")


def commands_of(page: str) -> list[list[str]]:
    """Return the lines to type of each console block of a page."""
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [re.findall(r"^\$ (.*)$", block, re.MULTILINE) for block in blocks]


class Terminal:
    """A shell that is typed into."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            ["bash", "--norc"],  # noqa: S607 - the reader's own
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=environ,
            start_new_session=True,
        )

    def type(self, line: str) -> str:
        """Run a line to its end; return what it printed.

        Raises:
            AssertionError: it failed.
        """
        self.begin(f"{line}; echo {_DONE} $?")
        *printed, done = self.until(_DONE)
        assert done.split()[-1] == "0", f"{line} failed:\n{''.join(printed)}"
        return "".join(printed)

    def begin(self, line: str) -> None:
        """Type a line, whose end may be far."""
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)

    def until(self, pattern: str) -> list[str]:
        """Return the lines up to the first with a pattern."""
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if re.search(pattern, line):
                return lines
        raise AssertionError(f"no line has {pattern!r}:\n{''.join(lines)}")

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def close(self) -> None:
        """End the shell, and whatever still runs in it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait()


@contextmanager
def terminal(folder: Path, environ: dict[str, str]) -> Iterator[Terminal]:
    """Yield a terminal in a folder, which is closed at the end."""
    opened = Terminal(folder, environ)
    try:
        yield opened
    finally:
        opened.close()


class Stopwatch:
    """Prints the seconds that each step took."""

    def __init__(self) -> None:
        self.began = self._last = time.monotonic()

    def lap(self, step: str) -> None:
        """Print the seconds since the last step."""
        now = time.monotonic()
        print(f"{now - self._last:7.1f} s  {step}", flush=True)
        self._last = now

    def total(self) -> float:
        """Return the seconds since the first step began."""
        return self._last - self.began


def follow(page: str, folder: Path, environ: dict[str, str], watch: Stopwatch) -> None:
    """Do all that the page says, in an empty folder.

    Raises:
        AssertionError: something came out otherwise than the page says.
    """
    install, test, run, submit = commands_of(page)
    with terminal(folder, environ) as first, terminal(folder, environ) as second:
        for line in install:
            first.type(line)
            watch.lap(line)
        for line in test:
            assert re.search(r"\b2 passed", first.type(line))
            watch.lap(line)
        first.begin(run[0])
        pasted = [line.strip() for line in first.until("console: ") if line.startswith("  ")]
        first.until("ready: web-shop, 2 job types")
        watch.lap(run[0])
        project = folder / install[-1].removeprefix("cd ")
        for line in (f"cd {project}", ". ../.venv/bin/activate", *pasted):
            second.type(line)
        assert second.type(submit[0]).splitlines()[1:] == ['"Hello, Ada!"']
        watch.lap(submit[0])
        source = project / "web_shop" / "app.py"
        source.write_text(source.read_text().replace("Hello", "Good day"))
        first.until("ready: web-shop")
        assert second.type(submit[0]).splitlines()[1:] == ['"Good day, Ada!"']
        watch.lap("edit, and submit again")
        first.interrupt()
        first.type("true")
        watch.lap("Ctrl-C")


def _wheel(folder: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*build, "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT], check=True
    )


def main() -> int:
    """Follow the page; return 1 if that took longer than it promises."""
    with tempfile.TemporaryDirectory(prefix="headgate-quickstart-") as made:
        wheels, home, folder = (Path(made) / name for name in ("wheels", "home", "empty"))
        home.mkdir()
        folder.mkdir()
        _wheel(wheels)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OWN_HOME)}
        environ = {
            **kept,
            "HOME": str(home),
            "PIP_FIND_LINKS": str(wheels),  # stands in for the index, which doesn't have it yet
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONUNBUFFERED": "1",
        }
        watch = Stopwatch()
        follow(PAGE.read_text(), folder, environ, watch)
    print(f"{watch.total():7.1f} s  in all, of {LONGEST_S:g} s")
    return int(watch.total() > LONGEST_S)


if __name__ == "__main__":
    sys.exit(main())
