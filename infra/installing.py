"""Installing a function's dependencies into a directory, for Lambda or for this machine."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from aws_cdk import aws_lambda as lambda_

from infra.requirements import Requirements
from jobs.errors import ConfigurationError

RUNTIME = lambda_.Runtime.PYTHON_3_13

_PYTHON = RUNTIME.name.removeprefix("python")

_GLIBC = (34, 28, 17)
"""Minor versions of glibc 2 that wheels are made for and the runtime can load: it has 2.34.
https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html (Amazon Linux 2023)
https://docs.aws.amazon.com/linux/al2023/ug/core-glibc.html"""

Installer = Callable[[Path, Sequence[str]], Sequence[str]]
"""The command that installs into a directory what pip's options name."""


def for_lambda() -> Installer:
    """Installs what Lambda runs, whatever this machine is: `RUNTIME`'s Python on Linux and ARM.

    Raises:
        ConfigurationError: there is neither pip nor uv.
    """
    if importlib.util.find_spec("pip") is not None:
        platforms = (("--platform", f"manylinux_2_{minor}_aarch64") for minor in _GLIBC)
        flags = ["--implementation", "cp", "--python-version", _PYTHON]
        flags += [flag for platform in platforms for flag in platform]
        return lambda target, wanted: [*_pip(target, wanted), *flags]
    if uv := shutil.which("uv"):
        platform = f"aarch64-manylinux_2_{_GLIBC[0]}"
        flags = ["--python-platform", platform, "--python-version", _PYTHON]
        command = [uv, "pip", "install", "--quiet"]
        return lambda target, wanted: [*command, *_into(target), *wanted, *flags]
    raise ConfigurationError(
        "bundling functions needs pip in this environment "
        f"({sys.executable} -m ensurepip), or uv on the PATH"
    )


def for_this_machine() -> Installer:
    """Installs what this interpreter can import, to try the bundle."""
    return _pip


def install(installer: Installer, requirements: Requirements, target: Path, *, owner: str) -> None:
    """Put the dependencies into the directory ``target``.

    Raises:
        ConfigurationError: the installer failed; its own words are quoted.
    """
    with tempfile.TemporaryDirectory() as scratch:
        command = installer(target, requirements.options(Path(scratch)))
        # The output is kept off stdout, where `cdk synth` prints the template.
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode:
        raise ConfigurationError(
            f"{owner}: its dependencies could not be installed (as wheels for Python {_PYTHON} on "
            f"Linux and ARM):\n{done.stderr.strip()}"
        )


def _pip(target: Path, wanted: Sequence[str]) -> list[str]:
    quietly = ("--quiet", "--disable-pip-version-check", "--no-compile")
    return [sys.executable, "-m", "pip", "install", *quietly, *_into(target), *wanted]


def _into(target: Path) -> list[str]:
    return ["--target", str(target), "--only-binary", ":all:"]
