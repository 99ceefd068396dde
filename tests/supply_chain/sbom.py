"""Bills of materials (CycloneDX) of what runs in AWS, made of the locks that it is built from."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from tests.supply_chain.licences import licence_of, refused, report

LOCKS: Mapping[str, str] = {
    "worker": "workers/requirements.txt",
    "bridge-and-sweep": "lambdas/requirements.txt",
    "consumer": "lambdas/requirements-consumer.txt",
}
"""The lock of each thing that is shipped, by the name of its bill."""


def write(folder: Path) -> list[str]:
    """Write the bills, and the report of the licences; return what may not be shipped."""
    folder.mkdir(parents=True, exist_ok=True)
    parts: dict[str, dict[str, Any]] = {}
    places: dict[str, list[str]] = {}
    for name, lock in LOCKS.items():
        bill = _bill(lock)
        for part in with_licences(bill["components"]):
            parts[part["name"]] = part
            places.setdefault(part["name"], []).append(name)
        (folder / f"{name}.cdx.json").write_text(json.dumps(bill, indent=2) + "\n")
    licences = {name: licence_of(name) for name in sorted(parts)}
    rows = [
        (name, parts[name]["version"], licences[name], ", ".join(places[name])) for name in licences
    ]
    (folder / "licences.md").write_text(report(rows))
    return refused(licences)


def with_licences(components: Sequence[MutableMapping[str, Any]]) -> Sequence[Any]:
    """Add the licences to a bill's components, which a lock does not know."""
    for part in components:
        if licence := licence_of(part["name"]):
            part["licenses"] = [{"expression": licence}]
    return components


def _bill(lock: str) -> dict[str, Any]:
    tool = Path(sys.executable).with_name("cyclonedx-py")
    options = ["--pyproject", "pyproject.toml", "--mc-type", "application", "--output-reproducible"]
    done = subprocess.run(
        [tool, "requirements", *options, "--of", "JSON", "-o", "-", lock],
        check=True,
        stdout=subprocess.PIPE,
    )
    bill: dict[str, Any] = json.loads(done.stdout)
    return bill
