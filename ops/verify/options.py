"""The options of `headgate verify`."""

from __future__ import annotations

import re
import secrets
from dataclasses import field
from datetime import timedelta
from pathlib import Path

from headgate.jobs.deployment.surroundings import Architecture
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.values.light_dataclass import light_dataclass

FOLDER = Path(".headgate")
"""The folder of all runs' folders, relative to the working directory."""

_STAGE = re.compile(r"verify-[a-z0-9]{1,12}")
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def new_stage() -> str:
    """Return the name of a stage that nobody has used."""
    return "verify-" + "".join(secrets.choice(_LETTERS) for _ in range(6))


@light_dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """The settings of one run.

    Raises:
        SettingsInvalid: a value is out of range, or the stage is not one of these runs.
    """

    stage: str = field(default_factory=new_stage)
    """The stage that the run makes, or that an earlier one has made; begins with ``verify-``."""
    endpoint_url: str | None = None
    """A local AWS that runs already; None: AWS itself, or one that is started."""
    local: bool = False
    """True to start a local AWS, and stop it at the end."""
    within: timedelta = timedelta(minutes=30)
    """The bound of all steps together, from when the stage is deployed."""
    keep: bool = False
    """True to leave the stage, so that another run can take it up."""
    architecture: Architecture = "arm64"
    requirements: Path | None = None
    """As in `ops.verify.project.VerifyProject`."""

    def __post_init__(self) -> None:
        if not _STAGE.fullmatch(self.stage):
            raise SettingsInvalid(
                f"the stage {self.stage!r} is none that headgate verify makes, and it touches no "
                "other: their names are verify- and up to 12 letters and digits"
            )
        if self.local and self.endpoint_url is not None:
            raise SettingsInvalid("--local starts a local AWS, and --endpoint names one: choose")
        if self.within <= timedelta(0):
            raise SettingsInvalid(f"--minutes must be positive, got {self.within}")

    @property
    def is_local(self) -> bool:
        """True if AWS itself isn't reached."""
        return self.local or self.endpoint_url is not None

    @property
    def folder(self) -> Path:
        """The folder of this stage's project and report."""
        return FOLDER / self.stage

    @property
    def report(self) -> Path:
        """The file of the report."""
        return self.folder / "report.json"
