"""The functions' assets, bundled without docker.

    bridge and sweep    headgate's jobs/ and lambdas/, their dependencies, and the app's routes
    a consumer          these, the dependencies for AWS on an event loop, the user's code and its
                        dependencies

Our packages are found where they are installed, so a wheel works as well as a checkout. The pins of
``lambdas/requirements*.txt`` are installed by pip or uv. An asset's hash covers all of its inputs,
so the same sources give the same asset, and CDK builds it once. Bytecode is added where this
machine has a Python of the runtime's version: cold starts are then twice as fast.
"""

from __future__ import annotations

import hashlib
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsii
from aws_cdk import BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_

import headgate
from headgate.infra.functions.pip_install import (
    RUNTIME,
    Platform,
    add_bytecode,
    for_lambda,
    install,
)
from headgate.infra.functions.requirements import MACHINES, Requirements
from headgate.infra.functions.user_code import UserCode
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.schedules.routes import FILE, Routes

_OURS = Path(headgate.__file__).parent
_CARRIED = ("jobs", "lambdas")
_PINS = _OURS / "lambdas" / "requirements.txt"
_CONSUMERS_PINS = _OURS / "lambdas" / "requirements-consumer.txt"
_OWN_LEFT_OUT = ("headgate/testing.py", "headgate/pytest_plugin.py", "headgate/jobs/testing/")
_LEAVINGS = ("**/__pycache__", ".lock")
_UNREAD = ("*.dist-info", "**/tests", "bin")
"""Files that none of our own dependencies reads; a user's may, so consumers keep them."""

_MADE_BY = ("bundling.py", "pip_install.py", "requirements.py", "user_code.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The contents of one function's asset."""

    owner: str
    """The function, as errors name it."""
    files: Mapping[str, Path]
    """Our modules and the user's: their sources by their names in the bundle."""
    requirements: Requirements
    stripped: tuple[str, ...] = _LEAVINGS
    """Patterns of the dependencies' files that nothing needs."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Further files, written at synthesis: their contents by their names in the bundle."""

    def code(self) -> lambda_.AssetCode:
        """Return the asset; it is built at synthesis unless ``cdk.out`` has it already.

        Raises:
            ConfigurationError: neither pip nor uv is available to install the dependencies.
        """
        platform = for_lambda(self.requirements.machine)
        return lambda_.Code.from_asset(
            str(_OURS / "lambdas"),
            asset_hash=self.fingerprint(platform),
            bundling=BundlingOptions(
                image=RUNTIME.bundling_image, local=_LocalBundling(self, platform)
            ),
        )

    def fingerprint(self, platform: Platform) -> str:
        """Return a hash of everything that the bundle is made from."""
        digest = hashlib.sha256(b"compiled" if platform.compiler else b"")
        if self.requirements.machine != MACHINES["arm64"]:
            digest.update(self.requirements.machine.encode())
        made_by = ((name, Path(__file__).with_name(name)) for name in _MADE_BY)
        for name, path in (*self.files.items(), *self.requirements.files(), *made_by):
            content = path.read_bytes()
            digest.update(f"{name}\n{_mode_of(path):o}\n{len(content)}\n".encode() + content)
        for name, text in self.texts.items():
            digest.update(f"{name}\n{len(text)}\n{text}".encode())
        return digest.hexdigest()

    def build(self, target: Path, platform: Platform) -> None:
        """Write the bundle into the directory ``target``.

        Raises:
            ConfigurationError: the dependencies could not be installed; the message says why.
        """
        install(platform.installer, self.requirements, target, owner=self.owner)
        # A user's requirements may install another version of headgate.
        shutil.rmtree(target / _OURS.name, ignore_errors=True)
        for pattern in self.stripped:
            for path in sorted(target.glob(pattern), reverse=True):  # contents come first
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, source in self.files.items():
            copy = target / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
        for name, text in self.texts.items():
            (target / name).write_text(text, encoding="utf-8")
        if platform.compiler:
            add_bytecode(platform.compiler, target)
        for path in target.rglob("*"):  # the function runs as another user
            path.chmod(_mode_of(path))


def functions_bundle(routes: Routes) -> Bundle:
    """Return the bundle of the functions without user code: the bridge and the sweep.

    The sweep needs no routes, and has them so that one asset serves both.
    """
    return Bundle(
        owner="the bridge function",
        files=dict(_own_modules()),
        requirements=Requirements(pinned=_PINS),
        stripped=(*_LEAVINGS, *_UNREAD),
        texts={f"{_OURS.name}/lambdas/{FILE}": routes.to_text()},
    )


def consumer_bundle(group: ConsumerGroup, output: Path | None = None) -> Bundle:
    """Return a consumer's bundle; its paths are relative to the working directory.

    Args:
        group: the consumer.
        output: CDK's output directory, which is not part of the code.

    Raises:
        ConfigurationError: its source or its requirements don't exist, or the source has no
            module of its handler.
    """
    owner = f"the consumer {group.name!r}"
    source = UserCode(root=Path(group.source), handler=group.handler, owner=owner, output=output)
    return Bundle(
        owner=owner,
        files=_beside_ours(owner, dict(source.files())),
        requirements=Requirements(
            pinned=_CONSUMERS_PINS,
            users=Path(group.requirements) if group.requirements else None,
            owner=owner,
            machine=MACHINES[group.architecture],
        ),
    )


def functions_code(routes: Routes) -> lambda_.AssetCode:
    """Return the asset of `functions_bundle`.

    Raises:
        ConfigurationError: neither pip nor uv is available to install the dependencies.
    """
    return functions_bundle(routes).code()


def _mode_of(path: Path) -> int:
    """Return a mode readable by everyone, whatever the umask; executable if it is for its owner."""
    return 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644


def _own_modules() -> Iterator[tuple[str, Path]]:
    """Yield the modules' names and paths, in a stable order."""
    found = [*_OURS.glob("*.py")]
    for package in _CARRIED:  # one by one: in a checkout they are links, which rglob doesn't follow
        found += (_OURS / package).rglob("*.py")
    for path in sorted(found):
        name = f"{_OURS.name}/{path.relative_to(_OURS).as_posix()}"
        if not name.startswith(_OWN_LEFT_OUT):
            yield name, path


def _beside_ours(owner: str, files: Mapping[str, Path]) -> Mapping[str, Path]:
    for name, path in files.items():
        package, _, below = name.partition("/")
        if package == _OURS.name and path.resolve() != (_OURS / below).resolve():
            raise ConfigurationError(
                f"{owner}: its source has {name}, and {package!r} is Headgate's own package: "
                "rename yours, or leave it out in .dockerignore"
            )
    return {**files, **dict(_own_modules())}


@jsii.implements(ILocalBundling)
class _LocalBundling:
    """The bundling that CDK calls instead of docker."""

    def __init__(self, bundle: Bundle, platform: Platform) -> None:
        self._bundle = bundle
        self._platform = platform

    # jsii passes the image by keyword, as CDK's interface declares it; nothing here needs docker.
    def try_bundle(self, output_dir: str, *, image: DockerImage, **_options: Any) -> bool:  # noqa: ARG002 - as above
        self._bundle.build(Path(output_dir), self._platform)
        return True
