"""The order in which the site shows its pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch

SECTIONS: Mapping[str, Sequence[str]] = {
    "Start": (
        "index",
        "quickstart",
        "tutorial",
        "installing",
        "local-development",
        "examples/*",
    ),
    "Concepts": (
        "concepts/overview",
        "concepts/delivery",
        "concepts/priorities",
        "concepts/retries",
        "concepts/limits",
        "concepts/dead-letters",
        "concepts/schedules",
        "concepts/records",
        "concepts/idempotency",
        "concepts/*",
        "glossary",
    ),
    "How-to": ("testing", "using-*", "how-to/*", "lambda"),
    "In depth": (
        "declaring",
        "submitting",
        "bundles",
        "results",
        "jobs",
        "workers",
        "batches",
        "resources",
        "records",
        "idempotency",
        "schedules",
        "events",
        "foreign-messages",
        "messages",
        "dead-letters",
        "pausing",
        "reliability",
    ),
    "Operate": (
        "runbook",
        "console",
        "console-pages",
        "operating",
        "watching",
        "metrics",
        "audit*",
    ),
    "Deploy": (
        "deploy",
        "worker-service",
        "elsewhere",
        "stages",
        "regions",
        "permissions",
        "trust",
        "cost",
    ),
    "Reference": (
        "reference/headgate",
        "reference/testing",
        "reference/errors",
        "reference/events",
        "reference/infra",
        "reference/integrations",
        "reference/*",
        "command-line",
    ),
    "Migrating": ("migrating/*",),
    "Compared with": ("compared/*",),
    "Versions": ("versions", "changelog"),
    "Contributing": ("contributing", "evidence", "emulators", "benchmarks", "security"),
}
"""Pages by section, without their ending; ``folder/*`` is whatever else the folder has."""


def navigation(places: Iterable[str]) -> dict[str, list[str]]:
    """Return the pages of each section, in order.

    Raises:
        ValueError: a page stands in no section, or a section names one that does not exist.
    """
    left = sorted(places)
    found = {}
    for section, patterns in SECTIONS.items():
        found[section] = [
            left.pop(left.index(each))
            for pattern in patterns
            for each in _matching(f"{pattern}.md", left)
        ]
    if left:
        raise ValueError(f"add {', '.join(left)} to SECTIONS of {__file__}")
    return found


def _matching(pattern: str, places: Sequence[str]) -> list[str]:
    found = [each for each in places if fnmatch(each, pattern)]
    if not found and "*" not in pattern:
        raise ValueError(f"SECTIONS of {__file__} names {pattern}, which is no page")
    return found
