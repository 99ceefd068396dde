"""The context in ``cdk.json``, as it stands there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate.jobs.errors import ConfigurationError

FILE = Path("cdk.json")
"""CDK's file, relative to the working directory."""


def read_context(path: Path) -> Mapping[str, Any]:
    """Return the context of a ``cdk.json``, with all that is not Headgate's.

    Raises:
        ConfigurationError: it can't be read, or is not a JSON object with another as its context.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} could not be read: {error}") from error
    context = found.get("context", {}) if isinstance(found, dict) else None
    if not isinstance(context, dict):
        raise ConfigurationError(f"{path} must hold a JSON object, with another as its context")
    return context
