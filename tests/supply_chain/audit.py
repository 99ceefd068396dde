"""An audit of the locks for known vulnerabilities, which needs an index that knows them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

UNANSWERED = 3
"""Exit code if nothing was audited, since no index answered."""


_NO_ANSWER = re.compile(
    r"could not connect|not redirecting properly|connection|max retries|timed? ?out|HTTPError"
    r"|network may be blocking",
    re.IGNORECASE,
)
"""What pip-audit and the libraries below it say of an index that does not answer."""


def audit(locks: Iterable[str]) -> int:
    """Print what is known against the packages of the locks; return the exit code.

    Returns:
        0: nothing; 1: something, or the tool failed on a lock; `UNANSWERED`: no index answered.
    """
    return worst(_audit(lock) for lock in locks)


def worst(codes: Iterable[int]) -> int:
    """Return the exit code of several locks' audits: what is known of one is never hidden by
    another that was not audited."""
    found = set(codes)
    return next((code for code in (1, UNANSWERED) if code in found), 0)


def _audit(lock: str) -> int:
    tool = Path(sys.executable).with_name("pip-audit")
    options = ["--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json"]
    done = subprocess.run([tool, *options, "--requirement", lock], capture_output=True, text=True)
    code, told = verdict(lock, done.stdout, done.stderr)
    sys.stdout.write(told)
    return code


def verdict(lock: str, output: str, complaint: str) -> tuple[int, str]:
    """Return the exit code and the text for one lock, from what pip-audit has printed.

    pip-audit exits with 1 for a vulnerability, for an index that can't be reached and for a fault
    of its own alike; only in the first case does it print its findings. A mirror that tells no
    vulnerabilities answers, and knows no package.
    """
    packages: Sequence[dict[str, Any]]
    try:
        packages = json.loads(output)["dependencies"]
    except ValueError:
        if _NO_ANSWER.search(complaint):
            return UNANSWERED, f"{lock}: NOT AUDITED, no index answered: {_last(complaint)}\n"
        return 1, f"{lock}: NOT AUDITED, pip-audit failed: {_last(complaint)}\n"
    reasons = [package["skip_reason"] for package in packages if "skip_reason" in package]
    if reasons and len(reasons) == len(packages):
        return UNANSWERED, f"{lock}: NOT AUDITED, the index knows no package: {reasons[0]}\n"
    known = [
        f"  {package['name']} {package['version']}: {found['id']}, fixed in "
        f"{', '.join(found['fix_versions']) or 'no version yet'}\n"
        for package in packages
        for found in package.get("vulns", ())
    ]
    skipped = [
        f"  {package['name']}: not audited: {package['skip_reason']}\n"
        for package in packages
        if "skip_reason" in package
    ]
    head = f"{lock}: {len(packages)} packages, {len(known)} known vulnerabilities\n"
    return int(bool(known or skipped)), "".join([head, *known, *skipped])


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
