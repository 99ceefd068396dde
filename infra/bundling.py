"""What the bridge function carries: `jobs`, `lambdas` and what they need, bundled without docker.

Dependencies are pinned by ``lambdas/requirements.txt``. The packages are found where they are
installed, so a wheel works as well as a checkout. What Lambda's runtime brings (boto3) is left out.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jsii
from aws_cdk import BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_

from jobs.errors import ConfigurationError

RUNTIME = lambda_.Runtime.PYTHON_3_13

OLDER_RUNTIME = (
    "The pinned dependencies are tested on this runtime, which AWS supports until June 2029"
)
"""Why it isn't the newest. https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html"""

_PYTHON = RUNTIME.name.removeprefix("python")


def _root(package: str) -> Path:
    # Looked for and not imported: nothing here runs what the function runs.
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            f"the package {package!r} is not installed: install headgate whole"
        )
    return Path(spec.origin).parent


_PACKAGES = {package: _root(package) for package in ("jobs", "lambdas")}
_REQUIREMENTS = _PACKAGES["lambdas"] / "requirements.txt"
_OWN_LEFT_OUT = "jobs/testing/"
_STRIPPED = ("**/__pycache__", "*.dist-info", "**/tests", "bin", ".lock")

Installer = Callable[[Path], Sequence[str]]
"""The command that installs the dependencies into a directory."""


def bridge_code() -> lambda_.AssetCode:
    """The function's code, built when the stack is synthesized, unless ``cdk.out`` has it already.

    Raises:
        ConfigurationError: neither pip nor uv is there to install the dependencies.
    """
    return lambda_.Code.from_asset(
        str(_PACKAGES["lambdas"]),
        asset_hash=fingerprint(),
        bundling=BundlingOptions(image=RUNTIME.bundling_image, local=_LocalBundling(for_lambda())),
    )


def fingerprint() -> str:
    """A hash of all that the bundle is made from: the same sources give the same asset."""
    digest = hashlib.sha256()
    for name, path in [
        *_sources(),
        ("requirements.txt", _REQUIREMENTS),
        (__name__, Path(__file__)),
    ]:
        content = path.read_bytes()
        digest.update(f"{name}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()


def bundle(target: Path, installer: Installer) -> None:
    """Put all that the function needs into the directory ``target``.

    Raises:
        ConfigurationError: the dependencies could not be installed; it says why.
    """
    _install(installer(target))
    for pattern in _STRIPPED:
        for path in sorted(target.glob(pattern), reverse=True):  # what is inside before its parent
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, source in _sources():
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)


def for_lambda() -> Installer:
    """Installs what Lambda runs, whatever this machine is: `RUNTIME`'s Python on Linux and ARM.

    Raises:
        ConfigurationError: there is neither pip nor uv.
    """
    if importlib.util.find_spec("pip") is not None:
        platform = ("--platform", "manylinux2014_aarch64", "--implementation", "cp")
        return lambda target: [*_pip(target), *platform, "--python-version", _PYTHON]
    if uv := shutil.which("uv"):
        platform = ("--python-platform", "aarch64-manylinux2014", "--python-version", _PYTHON)
        return lambda target: [uv, "pip", "install", "--quiet", *_exactly(target), *platform]
    raise ConfigurationError(
        "bundling the bridge function needs pip in this environment "
        f"({sys.executable} -m ensurepip), or uv on the PATH"
    )


def for_this_machine() -> Installer:
    """Installs what this interpreter can import, to try the bundle."""
    return _pip


def _pip(target: Path) -> list[str]:
    quietly = ("--quiet", "--disable-pip-version-check", "--no-compile")
    return [sys.executable, "-m", "pip", "install", *quietly, *_exactly(target)]


def _exactly(target: Path) -> list[str]:
    pinned = ("--requirement", str(_REQUIREMENTS), "--require-hashes", "--no-deps")
    return ["--target", str(target), "--only-binary", ":all:", *pinned]


def _install(command: Sequence[str]) -> None:
    # The output is kept off stdout, where `cdk synth` prints the template.
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode:
        raise ConfigurationError(
            f"the bridge function's dependencies could not be installed:\n{done.stderr.strip()}"
        )


def _sources() -> Iterator[tuple[str, Path]]:
    """Our own modules: their names in the bundle, and where they are; in a stable order."""
    for package, root in _PACKAGES.items():
        for path in sorted(root.rglob("*.py")):
            name = f"{package}/{path.relative_to(root).as_posix()}"
            if not name.startswith(_OWN_LEFT_OUT):
                yield name, path


@jsii.implements(ILocalBundling)
class _LocalBundling:
    """What CDK calls instead of docker."""

    def __init__(self, installer: Installer) -> None:
        self._installer = installer

    # jsii passes the image by its name, as CDK's interface has it; nothing here needs docker.
    def try_bundle(self, output_dir: str, *, image: DockerImage, **_options: Any) -> bool:  # noqa: ARG002
        bundle(Path(output_dir), self._installer)
        return True
