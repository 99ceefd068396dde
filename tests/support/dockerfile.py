"""A Dockerfile's steps, parsed, and replayed in a directory without docker.

The directory stands for the image's file system, and an environment with pip in it for the base
image. Absolute paths of the steps are mapped into it, which works for Dockerfiles that write
nowhere else; `Replay` checks that.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

_OURS = re.compile(r"(?<![\w.])/(opt|build|app)(?=[/\s]|$)")
"""The paths that the file's steps write to."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction."""

    name: str
    text: str

    def argv(self) -> list[str]:
        """The words of an instruction in exec form (JSON)."""
        words: list[str] = json.loads(self.text)
        return words

    @property
    def sources(self) -> list[str]:
        """The paths that a COPY copies, from the context or another stage."""
        return [word for word in self.text.split() if not word.startswith("--")][:-1]

    @property
    def target(self) -> str:
        """The path that a COPY copies to."""
        return self.text.split()[-1]


def read_dockerfile(path: Path) -> list[list[Step]]:
    """Return a file's stages, each from its FROM."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    steps = [Step(*line.split(maxsplit=1)) for line in whole.splitlines() if line.strip()]
    starts = [at for at, step in enumerate(steps) if step.name == "FROM"]
    return [steps[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


def copied(stages: Sequence[Sequence[Step]]) -> set[str]:
    """Return the paths copied out of the context."""
    return {
        source
        for stage in stages
        for step in stage
        if step.name == "COPY" and "--from=" not in step.text
        for source in step.sources
    }


@dataclass(slots=True)
class Replay:
    """An image's steps in a directory.

    Args:
        root: stands for ``/``.
        context: the directory that COPY copies from.
        python: the base image's interpreter.
        user: id of the user who runs the steps; None for the user of the test.
    """

    root: Path
    context: Path
    python: str
    user: int | None
    environment: dict[str, str] = field(default_factory=dict)
    """The variables that ENV sets in the last stage."""
    final: dict[str, Step] = field(default_factory=dict)
    """The last stage's other steps, by name; the last one of several."""

    def build(self, stages: Sequence[Sequence[Step]]) -> None:
        """Run all steps.

        Raises:
            subprocess.CalledProcessError: one failed; its output is in the test's.
        """
        self._run([self.python, "-m", "venv", str(self._base)], env=None)
        for stage in stages:
            self.environment.clear()
            self.final.clear()
            for step in stage:
                self._do(step)

    def start(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Any:
        """Start the command of a container of the image; return the process."""
        argv = [*self.final["ENTRYPOINT"].argv(), *arguments]
        variables = self._variables() | dict(environment)
        found = shutil.which(argv[0], path=variables["PATH"])
        assert found is not None, f"the image has no {argv[0]}"
        return subprocess.Popen(
            [found, *argv[1:]],
            cwd=self._here(self.final["WORKDIR"].text),
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **self._as_user(),
        )

    def call(self, argv: Sequence[str]) -> int:
        """Run a command in the image, as a health check does; return its exit code."""
        variables = self._variables()
        found = shutil.which(argv[0], path=variables["PATH"])
        assert found is not None, f"the image has no {argv[0]}"
        done = subprocess.run([found, *argv[1:]], env=variables, **self._as_user())
        return done.returncode

    @property
    def _base(self) -> Path:
        return self.root / "base"

    def _do(self, step: Step) -> None:
        match step.name:
            case "RUN":
                self._run(["sh", "-ec", self._mapped(step.text)], env=self._variables())
            case "COPY":
                self._copy(step)
            case "ENV":
                for name, value in (pair.split("=", 1) for pair in step.text.split()):
                    self.environment[name] = self._mapped(
                        Template(value).substitute(self._variables())
                    )
            case _:
                self.final[step.name] = step

    def _copy(self, step: Step) -> None:
        target = self._here(step.target)
        if "--from=" in step.text:
            assert step.sources == [step.target], "stages share their files here"
            assert target.exists()
            return
        for source in step.sources:
            into = target / source if step.target.endswith("/") else target
            into.parent.mkdir(parents=True, exist_ok=True)
            if (self.context / source).is_dir():
                shutil.copytree(
                    self.context / source, into, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                shutil.copyfile(self.context / source, into)
        self._give_to_user(self.root)

    def _run(self, argv: Sequence[str], *, env: Mapping[str, str] | None) -> None:
        subprocess.run(argv, check=True, cwd=self.root, env=env, **self._as_user())

    def _variables(self) -> dict[str, str]:
        """Return the base image's variables and ENV's; pip's own settings are this machine's."""
        ours = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        path = f"{self._base / 'bin'}:/usr/bin:/bin"
        return ours | {"PATH": path, "HOME": str(self.root)} | self.environment

    def _mapped(self, text: str) -> str:
        return _OURS.sub(lambda found: f"{self.root}/{found[1]}", text)

    def _here(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def _as_user(self) -> dict[str, Any]:
        if self.user is None:
            return {}
        return {"user": self.user, "group": self.user, "extra_groups": []}

    def _give_to_user(self, directory: Path) -> None:
        if self.user is None:
            return
        for path in [directory, *directory.rglob("*")]:
            if not path.is_symlink():
                os.chown(path, self.user, self.user)
