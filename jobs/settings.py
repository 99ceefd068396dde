"""What the environment says, read once at the edge and never at import."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from jobs.errors import SettingsInvalid

_PREFIX = "HEADGATE_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The ``HEADGATE_*`` variables. AWS's own are read by its SDK."""

    app: str | None = None
    """``HEADGATE_APP``: the app of a command that names none, as ``module:attribute``."""
    stage: str | None = None
    """``HEADGATE_STAGE``: goes into every physical name, so that stages share an account."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read ``environ``, or this process's own environment.

        Raises:
            SettingsInvalid: a variable is set that looks like one of these, misspelt. Others are
                left alone: Kubernetes sets HEADGATE_PORT where a service is called headgate.
        """
        found = {
            name.removeprefix(_PREFIX).lower(): value
            for name, value in (os.environ if environ is None else environ).items()
            if name.startswith(_PREFIX)
        }
        known = cls.__dataclass_fields__
        for name in found.keys() - known.keys():
            if near := difflib.get_close_matches(name, known, n=1, cutoff=0.75):
                raise SettingsInvalid(
                    f"the variable {_PREFIX}{name.upper()} means nothing to Headgate: did you mean "
                    f"{_PREFIX + near[0].upper()!r}?"
                )
        return cls(**{name: value for name, value in found.items() if value and name in known})
