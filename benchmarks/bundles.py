"""``python -m benchmarks.bundles``: each function's size, and its import time.

Sizes are those of the asset for Lambda. Imports are timed on this machine, in fresh interpreters
that see nothing but the bundle, minus the bare interpreter's own time. Times are processor time,
which other processes hardly affect; the time on AWS depends on the function's memory.
"""

from __future__ import annotations

import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.environments import ROOT
from examples.shop import contracts
from headgate.infra.functions.bundling import Bundle, consumer_bundle, functions_bundle
from headgate.infra.functions.pip_install import Platform, for_lambda, for_this_machine
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.schedules.routes import Routes

ROUNDS = 15
MOST_MS = 500.0
"""Target for a cold import of Headgate, in milliseconds."""
MOST_MB = 15.0
"""Target for the zipped functions without user code, in millions of bytes."""

_LATER = ("aiobotocore.session", *(f"headgate.jobs.aws.{each}" for each in ("dynamo", "s3", "sqs")))
"""Modules that a consumer needs to reach AWS, and that its import must not load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One of the functions that an app may have on AWS."""

    name: str
    module: str
    """The modules that Lambda imports, comma-separated."""
    bundle: Bundle


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a directory, in millions of bytes."""

    zipped_mb: float
    whole_mb: float


def main() -> None:
    """Measure, and print a table in the form of docs/lambda.md."""
    print("| function | zipped | on disk | cold import | without bytecode |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for function in _functions(Path(scratch)):
            print(_row(function, Path(scratch)), flush=True)
    print(f"\nSet out for: under {MOST_MS:g} ms each; bridge and sweep under {MOST_MB:g} MB zipped")


def size_of(directory: Path, archive: Path) -> Size:
    """Return a bundle's size, after writing it to ``archive``, zipped as by CDK."""
    files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in files:
            zipped.write(path, path.relative_to(directory))
    whole = sum(path.stat().st_size for path in files)
    return Size(zipped_mb=archive.stat().st_size / 1e6, whole_mb=whole / 1e6)


def _functions(scratch: Path) -> list[Function]:
    """Return the bridge, the sweep, and a consumer of the shop's jobs."""
    source = scratch / "shop"
    shutil.copytree(
        ROOT / "examples", source / "examples", ignore=shutil.ignore_patterns("__pycache__")
    )
    module = "examples.shop.function"
    shop = ConsumerGroup(name="shop", handler=f"{module}.handler", source=str(source))
    shared = functions_bundle(Routes.of(contracts.app))
    return [
        Function(name="bridge", module="headgate.lambdas.bridge", bundle=shared),
        Function(name="sweep", module="headgate.lambdas.sweep.handler", bundle=shared),
        Function(name="consumer of the shop", module=module, bundle=consumer_bundle(shop)),
        Function(
            name="the same, with what its first invocation loads",
            module=", ".join((module, *_LATER)),
            bundle=consumer_bundle(shop),
        ),
    ]


def _row(function: Function, scratch: Path) -> str:
    here = for_this_machine()
    # With this machine's bytecode, as large as Lambda's, which not every machine can make.
    target = replace(for_lambda(), compiler=here.compiler)
    size = size_of(_built(function, target, scratch / "lambda"), scratch / "bundle.zip")
    compiled = _built(function, here, scratch / "compiled")
    plain = _built(function, replace(here, compiler=None), scratch / "plain")
    found = import_ms(function.module, {"compiled": compiled, "plain": plain})
    return (
        f"| {function.name} | {size.zipped_mb:.1f} MB | {size.whole_mb:.0f} MB | "
        f"{found['compiled']:.0f} ms | {found['plain']:.0f} ms |"
    )


def _built(function: Function, platform: Platform, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    function.bundle.build(target, platform)
    return target


def import_ms(module: str, bundles: Mapping[str, Path]) -> dict[str, float]:
    """Return the milliseconds of an import by bundle: medians, measured in turns."""
    found: dict[str, list[float]] = {name: [] for name in bundles}
    for _ in range(ROUNDS):
        nothing = _run_s("pass")
        for name, path in bundles.items():
            code = f"import sys; sys.path.insert(0, {str(path)!r}); import {module}"
            found[name].append((_run_s(code) - nothing) * 1000)
    return {name: statistics.median(values) for name, values in found.items()}


def _run_s(code: str) -> float:
    """Return the seconds of processor time that a fresh interpreter takes to run the code."""
    before = _of_children_s()
    # -B: bytecode is not kept, as on Lambda
    command = [sys.executable, "-I", "-S", "-B", "-c", code]
    subprocess.run(command, check=True)  # noqa: S603 - our own
    return _of_children_s() - before


def _of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
