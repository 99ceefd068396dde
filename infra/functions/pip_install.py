"""Installation of a function's dependencies into a directory, for Lambda or for this machine."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from aws_cdk import aws_lambda as lambda_

from headgate.infra.functions.requirements import MACHINES, Requirements
from headgate.jobs.errors import ConfigurationError

RUNTIME = lambda_.Runtime.PYTHON_3_13

OLDER_RUNTIME = (
    "The pinned dependencies are tested on this runtime, which AWS supports until June 2029"
)
"""The reason not to use the newest runtime.
https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html"""

_PYTHON = RUNTIME.name.removeprefix("python")

_GLIBC = (34, 28, 17)
"""Minor versions of glibc 2 that wheels are built for and the runtime, with 2.34, can load.
https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html (Amazon Linux 2023)
https://docs.aws.amazon.com/linux/al2023/ug/core-glibc.html"""

_MOUNTED = "/var/task"
"""Lambda's directory for the bundle; bytecode refers to it, not to where it was compiled."""

Installer = Callable[[Path, Sequence[str]], Sequence[str]]
"""Returns the command that installs into a directory what pip's options name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The platform that a bundle is made for."""

    installer: Installer
    compiler: str | None
    """A Python of the platform's version that compiles bytecode; None: there is none. Lambda has no
    place to keep bytecode, so without it every cold start compiles anew."""


def for_lambda(machine: str = MACHINES["arm64"]) -> Platform:
    """Return Lambda's platform, independent of this machine: `RUNTIME`'s Python on Linux.

    Raises:
        ConfigurationError: there is neither pip nor uv.
    """
    return Platform(installer=_for_lambda(machine), compiler=_python_of_runtime())


def for_this_machine() -> Platform:
    """Return the platform of this interpreter, to try a bundle."""
    return Platform(installer=_pip, compiler=sys.executable)


def install(installer: Installer, requirements: Requirements, target: Path, *, owner: str) -> None:
    """Install the dependencies into the directory ``target``.

    Raises:
        ConfigurationError: the installer failed; its output is quoted.
    """
    with tempfile.TemporaryDirectory() as scratch:
        command = installer(target, requirements.options(Path(scratch), python=_PYTHON))
        # The output is kept off stdout, to which `cdk synth` prints the template.
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode:
        raise ConfigurationError(
            f"{owner}: its dependencies could not be installed (as wheels for Python {_PYTHON} on "
            f"Linux, {requirements.machine}):\n{done.stderr.strip()}"
        )


def add_bytecode(compiler: str, target: Path) -> None:
    """Compile every module in ``target``.

    A module that can't be compiled is left as it is: some packages ship sources for other versions,
    and bytecode only speeds up the start.
    """
    # A bundle never changes, but its files' times do: unchecked bytecode is right.
    unchecked = ("--invalidation-mode", "unchecked-hash")
    paths = ("-s", str(target), "-p", _MOUNTED, str(target))
    command = [compiler, "-I", "-m", "compileall", "-q", *unchecked, *paths]
    subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - ours


def _for_lambda(machine: str) -> Installer:
    if importlib.util.find_spec("pip") is not None:
        platforms = (("--platform", f"manylinux_2_{minor}_{machine}") for minor in _GLIBC)
        flags = ["--implementation", "cp", "--python-version", _PYTHON]
        flags += [flag for platform in platforms for flag in platform]
        return lambda target, wanted: [*_pip(target, wanted), *flags]
    if uv := shutil.which("uv"):
        platform = f"{machine}-manylinux_2_{_GLIBC[0]}"
        flags = ["--python-platform", platform, "--python-version", _PYTHON]
        command = [uv, "pip", "install", "--quiet"]
        return lambda target, wanted: [*command, *_into(target), *wanted, *flags]
    raise ConfigurationError(
        "bundling functions needs pip in this environment "
        f"({sys.executable} -m ensurepip), or uv on the PATH"
    )


@cache
def _python_of_runtime() -> str | None:
    """Return this interpreter, or one on the PATH that reports the runtime's version."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == _PYTHON:
        return sys.executable
    if (found := shutil.which(f"python{_PYTHON}")) is None:
        return None
    asked = [found, "-I", "-c", "import sys; print(sys.executable)"]
    # A version manager's shim may have no interpreter behind it.
    done = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    return done.stdout.strip() or None


def _pip(target: Path, wanted: Sequence[str]) -> list[str]:
    quietly = ("--quiet", "--disable-pip-version-check", "--no-compile")
    return [sys.executable, "-m", "pip", "install", *quietly, *_into(target), *wanted]


def _into(target: Path) -> list[str]:
    return ["--target", str(target), "--only-binary", ":all:"]
