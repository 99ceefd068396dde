"""An audit of the locks for known vulnerabilities, which needs an index that knows them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

UNANSWERED = 3
"""Exit code if nothing was audited, since no index answered."""


_NO_ANSWER = re.compile(
    r"could not connect|not redirecting properly|connection|max retries|timed? ?out|HTTPError"
    r"|network may be blocking",
    re.IGNORECASE,
)
"""What pip-audit and the libraries below it say of an index that does not answer."""

_CONTROL = "jinja2==2.4.1"
"""A release with vulnerabilities that were published in 2014 and 2019: an index that tells of none
of them would tell of no other."""


def audit(locks: Sequence[str]) -> int:
    """Print what is known against the packages of the locks; return the exit code.

    The index is the Python Package Index, or what pip-audit's own variables name instead:
    ``PIP_AUDIT_VULNERABILITY_SERVICE=osv`` and ``PIP_AUDIT_OSV_URL``.

    Returns:
        0: nothing; 1: something, or the tool failed on a lock; `UNANSWERED`: no index answered, or
        the one that did tells of no vulnerabilities.
    """
    code, told = control(*_known_of_control())
    sys.stdout.write(told)
    return code or worst(_audit(lock) for lock in locks)


def worst(codes: Iterable[int]) -> int:
    """Return the exit code of several locks' audits: what is known of one is never hidden by
    another that was not audited."""
    found = set(codes)
    return next((code for code in (1, UNANSWERED) if code in found), 0)


def _known_of_control() -> tuple[str, str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "control.txt"
        path.write_text(f"{_CONTROL}\n")
        return _asked(str(path), "--no-deps")


def _audit(lock: str) -> int:
    code, told = verdict(lock, *_asked(lock, "--require-hashes"))
    sys.stdout.write(told)
    return code


def _asked(lock: str, option: str) -> tuple[str, str]:
    """Return what pip-audit has printed, and what it has complained of."""
    tool = Path(sys.executable).with_name("pip-audit")
    options = ["--disable-pip", option, "--progress-spinner", "off", "--format", "json"]
    done = subprocess.run([tool, *options, "--requirement", lock], capture_output=True, text=True)
    return done.stdout, done.stderr


def control(output: str, complaint: str) -> tuple[int, str]:
    """Return 0 if the index knows of the control's vulnerabilities; else the exit code, and a text.

    pip-audit takes an answer without vulnerabilities for a sound package, also from a mirror that
    never has any.
    """
    code, told = verdict("all locks", output, complaint)
    if code == 0:
        return UNANSWERED, f"all locks: NOT AUDITED, the index tells nothing of {_CONTROL}\n"
    return (0, "") if code == 1 and _packages(output) else (code, told)


def verdict(lock: str, output: str, complaint: str) -> tuple[int, str]:
    """Return the exit code and the text for one lock, from what pip-audit has printed.

    pip-audit exits with 1 for a vulnerability, for an index that can't be reached and for a fault
    of its own alike; only in the first case does it print its findings. A mirror without the
    interface that pip-audit asks answers, and knows no package.
    """
    packages = _packages(output)
    if not packages:
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


def _packages(output: str) -> Sequence[dict[str, Any]]:
    """Return the packages of pip-audit's findings; none if it has printed no findings."""
    try:
        found: Sequence[dict[str, Any]] = json.loads(output)["dependencies"]
    except ValueError:
        return ()
    return found


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
