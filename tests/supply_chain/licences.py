"""The licences of what is shipped, from the metadata of the packages that are installed here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution

PERMITTED = frozenset({"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "PSF-2.0"})
"""Licences, by their SPDX ids, of what may be shipped beside code under Apache-2.0."""

_SPDX: Mapping[str, str] = {
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "ISC License": "ISC",
    "MIT License": "MIT",
}
"""SPDX ids of other spellings."""

_STATED: Mapping[str, str] = {
    "colorama": "BSD-3-Clause",  # for Windows alone
    "dumb-init": "MIT",  # in the image alone
    "python-dateutil": "BSD-3-Clause",  # its LICENSE: for all of it, though some is Apache-2.0 too
}
"""Licences of packages that aren't installed here, or whose metadata doesn't say."""


def licence_of(name: str) -> str:
    """Return a package's licence as an SPDX expression; empty if nothing tells it."""
    if name in _STATED:
        return _STATED[name]
    try:
        return _declared(distribution(name))
    except PackageNotFoundError:
        return ""


def refused(licences: Mapping[str, str]) -> list[str]:
    """Return a line for each package, of those with their licences, that may not be shipped."""
    return [
        f"{name}: {licence or 'no licence is known'}"
        for name, licence in licences.items()
        if not licence or not set(re.split(r" (?:AND|OR) ", licence)) <= PERMITTED
    ]


def report(rows: Iterable[tuple[str, str, str, str]]) -> str:
    """Return the report in Markdown: of each package its version, licence, and where it goes."""
    head = ["# Licences of what is shipped", "", "| package | version | licence | in |"]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*head, "| --- | --- | --- | --- |", *lines, ""])


def _declared(package: Distribution) -> str:
    metadata = package.metadata.json
    if expression := metadata.get("license_expression"):
        return str(expression)
    named = [str(metadata.get("license", ""))]
    for classifier in metadata.get("classifier", ()):
        kind, _, rest = classifier.partition(" :: ")
        if kind == "License":
            named.append(rest.rpartition(" :: ")[2])
    found = (_SPDX.get(each, each) for each in named)
    return next((each for each in found if each in PERMITTED), named[0])
