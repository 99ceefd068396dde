"""`headgate dev` as its users run it: one process, from its start to Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Self

import psutil
import pytest
from rich.console import Console

from headgate.jobs.errors import ConfigurationError
from headgate.ops.dev.options import DevOptions
from headgate.ops.dev.session import run
from headgate.ops.dev.surroundings import Surroundings

ROOT = Path(__file__).parents[2]
HEADGATE = [sys.executable, "-c", "from headgate.ops import main; main()"]


@dataclass(frozen=True)
class Page:
    """The commands of docs/quickstart.md that this test types."""

    new: list[str]
    """`headgate new`, without the name."""
    submit: list[str]

    @classmethod
    def read(cls) -> Self:
        page = (ROOT / "docs" / "quickstart.md").read_text()
        lines = [
            shlex.split(line) for line in re.findall(r"^\$ headgate (.*)$", page, re.MULTILINE)
        ]
        [new] = [line[:-1] for line in lines if line[0] == "new"]
        [submit] = [line for line in lines if line[0] == "submit"]
        return cls(new, submit)


class Dev:
    """A running `headgate dev`, whose output is read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.heard: list[str] = []

    def until(self, pattern: str) -> str:
        """Read on until a line has the pattern; return the line."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.heard.append(line)
            if re.search(pattern, line):
                return line
        raise AssertionError(f"no line has {pattern!r}: {''.join(self.heard)}")

    def children(self, word: str) -> list[psutil.Process]:
        """Return its child processes whose command line has a word, by age."""
        found = psutil.Process(self._process.pid).children()
        return [each for each in found if word in " ".join(each.cmdline())]

    def end(self, how: signal.Signals) -> int:
        """Send it a signal, and wait until it and all that it started have closed its output."""
        self._process.send_signal(how)
        return self.ended()

    def ended(self) -> int:
        """Wait until it has ended by itself, and all that it started has closed its output."""
        assert self._process.stdout is not None
        self.heard += self._process.stdout
        return self._process.wait()


@contextmanager
def dev(folder: Path, environ: dict[str, str], *options: str) -> Iterator[Dev]:
    with subprocess.Popen(
        [*HEADGATE, "dev", "dev_shop.app:app", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environ,
    ) as process:
        running = Dev(process)
        try:
            yield running
        except BaseException as error:
            error.add_note(f"heard until then:\n{''.join(running.heard)}")
            raise
        finally:
            process.terminate()


def page_at(link: str) -> str:
    with urllib.request.urlopen(link) as answer:  # noqa: S310 - of this machine
        text: str = answer.read().decode()
    return text


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A user's environment, with accounts of AWS that nothing may reach."""
    (tmp_path / "tmp").mkdir()
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")},
        "AWS_PROFILE": "nobody-has-this",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(tmp_path / "tmp"),
    }


def test_an_app_runs_is_reloaded_fires_its_schedules_and_leaves_nothing(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    project, page = tmp_path / "dev-shop", Page.read()
    subprocess.run([*HEADGATE, *page.new, "dev-shop"], check=True, cwd=tmp_path, env=environ)
    before = {each.relative_to(project) for each in project.rglob("*")}
    source = project / "dev_shop" / "app.py"
    written = source.read_text()
    with dev(project, environ) as running:
        running.until("in another terminal")
        elsewhere = dict(environ)
        elsewhere.pop(running.until("unset").split()[1])
        while (line := running.until("export |local AWS")).strip().startswith("export"):
            name, _, value = line.strip().removeprefix("export ").partition("=")
            elsewhere[name] = value
        link = running.until("console: ").split()[1]
        running.until("ready: dev-shop, 2 job types")
        running.until(r"tidy-up \S+ completed")  # a rate's first firing

        submit = [*HEADGATE, *page.submit]
        subprocess.run(submit, check=True, cwd=project, env=elsewhere)
        running.until("greet: Hello, Ada!")

        source.write_text(written.replace("Hello", "Good day") + "\n1 / 0\n")
        running.until("changed: app.py")
        running.until("    1 / 0")
        running.until("ZeroDivisionError")
        running.until("waiting for the next edit")
        source.write_text(written.replace("Hello", "Good day"))
        running.until("ready: dev-shop")
        assert "dev-shop" in page_at(link)
        subprocess.run(submit, check=True, cwd=project, env=elsewhere)
        running.until("greet: Good day, Ada!")

        assert running.end(signal.SIGINT) == 0
    with pytest.raises(urllib.error.URLError):
        page_at(link)
    assert not [*(tmp_path / "tmp").iterdir()]
    after = {each.relative_to(project) for each in project.rglob("*")}
    assert {each for each in after - before if "__pycache__" not in each.parts} == set()


APP = """
import os
from headgate import App

print("runs in", os.getpid())
app = App("dev-shop")

@app.job("greet")
def greet() -> None: ...
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_any_signal_to_end_leaves_no_process(
    how: signal.Signals, tmp_path: Path, environ: dict[str, str], ministack: str
) -> None:
    (tmp_path / "dev_shop").mkdir()
    (tmp_path / "dev_shop" / "app.py").write_text(APP)
    with dev(tmp_path, environ, "--endpoint", ministack, "--no-console") as running:
        process = int(running.until("runs in").split()[-1])
        running.until("ready: dev-shop")
        assert running.end(how) == 0
    assert "console" not in "".join(running.heard)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_it_ends_with_an_error_once_its_local_aws_is_dead(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    (tmp_path / "dev_shop").mkdir()
    (tmp_path / "dev_shop" / "app.py").write_text(APP)
    with dev(tmp_path, environ, "--state", "kept", "--no-console") as running:
        running.until("ready: dev-shop")
        [local_aws] = running.children("ministack")
        local_aws.kill()
        said = running.until("has lost its local AWS, and some or all of kept is as it was at the ")
        assert "start: start it again; the local server 'ministack' ended with exit code -9" in said
        assert running.ended() == 1
    assert not [*(tmp_path / "tmp").iterdir()]


def test_an_edit_that_keeps_the_size_and_the_time_of_a_file_is_loaded(
    tmp_path: Path, environ: dict[str, str], ministack: str
) -> None:
    source = tmp_path / "dev_shop" / "app.py"
    source.parent.mkdir()
    source.write_text(APP)
    before = source.stat()
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with dev(tmp_path, environ, "--endpoint", ministack, "--no-console") as running:
        running.until("runs in")
        running.until("ready: dev-shop")
        assert [*source.parent.glob("__pycache__/app.*.pyc")]
        source.write_text(APP.replace("runs in", "acts in"))
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
        running.until("acts in")
        assert running.end(signal.SIGINT) == 0


async def test_files_that_can_not_be_watched_end_it_and_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ministack: str
) -> None:
    async def too_many(*folders: Path, **_: object) -> AsyncIterator[set[tuple[object, str]]]:
        if folders:
            raise OSError("OS file watch limit reached")
        yield set()

    monkeypatch.chdir(tmp_path)
    (tmp_path / "unwatched.py").write_text(APP)
    monkeypatch.setattr("headgate.ops.dev.session.awatch", too_many)
    options = DevOptions(
        app="unwatched:app", endpoint_url=ministack, state=None, watch=(Path(),), console=False
    )
    with pytest.raises(ConfigurationError, match=r"limit reached\. Name the folders of your code"):
        await run(options, Console(file=StringIO()), None)


REGIONS = """
from datetime import timedelta
from headgate import App, Schedule

app = App("dev-regions")

@app.job("report")
def report(region: str) -> None:
    print("report of", region)

for region in {regions}:
    report.add_schedule(region, region, schedule=Schedule.rate(timedelta(hours=1)))
"""


def test_each_of_a_type_s_schedules_fires_with_its_own_payload_and_goes_with_its_line(
    tmp_path: Path, environ: dict[str, str], ministack: str
) -> None:
    source = tmp_path / "dev_shop" / "app.py"
    source.parent.mkdir()
    source.write_text(REGIONS.format(regions=["emea", "apac"]))
    command = [*HEADGATE, "-A", "dev_shop.app:app", "schedules", "list", "--json"]
    surroundings = Surroundings(app="dev_shop.app:app", endpoint_url=ministack, environ=environ)
    elsewhere = surroundings.environment()

    def listed() -> set[str]:
        said = subprocess.check_output(command, cwd=tmp_path, env=elsewhere, text=True)
        return {each["name"] for each in json.loads(said)}

    with dev(tmp_path, environ, "--endpoint", ministack, "--no-console") as running:
        told = {running.until("report of ").split()[-1], running.until("report of ").split()[-1]}
        assert told == {"emea", "apac"}  # a rate's first firing
        assert listed() == {"report.emea", "report.apac"}
        source.write_text(REGIONS.format(regions=["emea", "amer"]))
        running.until("report of amer")
        assert listed() == {"report.emea", "report.amer"}
        assert running.end(signal.SIGINT) == 0
