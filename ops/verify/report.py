"""The report of `headgate verify`: what was tried, where, and with what result.

It names no account and has no payload, so that it can be sent to anyone.
"""

from __future__ import annotations

import json
import platform
import re
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_version import own_version
from headgate.ops.verify.steps.step import StepResult

_ACCOUNT = re.compile(r"\d{12}")

SiteKind = Literal["AWS", "local AWS"]


@light_dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The report, as far as the steps have come."""

    stage: str
    where: SiteKind
    region: str
    began_at: datetime
    usd_estimated: float
    took_s: float = 0.0
    steps: tuple[StepResult, ...] = ()
    headgate: str = own_version()
    python: str = platform.python_version()
    system: str = f"{platform.system()} {platform.machine()}"

    @property
    def passed(self) -> bool:
        """True if no step has failed."""
        return all(each.state != "failed" for each in self.steps)

    def with_step(self, result: StepResult, took_s: float) -> VerifyReport:
        """Return the report with one more step, in place of an earlier try of the same."""
        said = replace(result, seen=_without_account(result.seen))
        others = tuple(each for each in self.steps if each.name != result.name)
        return replace(self, steps=(*others, said), took_s=took_s)

    def has_passed(self, name: str) -> bool:
        """Return True if a step of that name has passed."""
        return any(each.name == name and each.state == "passed" for each in self.steps)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self) | {"began_at": self.began_at.isoformat(), "passed": self.passed}

    def write(self, path: Path) -> None:
        """Write it into a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n")


def read_report(path: Path) -> VerifyReport | None:
    """Return the report of an earlier run; None if there is none.

    Raises:
        ConfigurationError: the file is no report.
    """
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
        del found["passed"]
        found["began_at"] = datetime.fromisoformat(found["began_at"])
        found["steps"] = tuple(StepResult(**each) for each in found["steps"])
        return VerifyReport(**found)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{path} is no report of headgate verify ({error}): delete it to begin anew"
        ) from error


def _without_account(text: str) -> str:
    return _ACCOUNT.sub("<account>", text)
