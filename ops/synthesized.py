"""Templates that ``cdk synth`` has written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate.jobs.errors import ConfigurationError


def read_template(path: Path) -> Mapping[str, Any]:
    """Return a synthesized template.

    Raises:
        ConfigurationError: there is none, or it can't be read.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{path} could not be read: {error}. Run `npx aws-cdk synth` with the same stage "
            "before, or name another file with --template"
        ) from error
    if not isinstance(found, dict) or not isinstance(found.get("Resources"), dict):
        raise ConfigurationError(f"{path} is not a template of CloudFormation's")
    return found
