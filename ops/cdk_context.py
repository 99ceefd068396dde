"""The deployment that ``cdk.json`` describes, for commands that run without CDK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate.jobs.deployment.cdk_context import STAGE, read_deployment
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError

FILE = Path("cdk.json")
"""CDK's file, relative to the working directory."""


def deployment_from_cdk_json(path: Path | None, stage: str | None) -> Deployment:
    """Return the deployment of a stage.

    Args:
        path: a ``cdk.json``; None: the working directory's, or `Deployment`'s defaults if it has
            none.
        stage: the app's stage; None: the file's default.

    Raises:
        ConfigurationError: the file can't be read, is not JSON, or holds no valid deployment; or it
            declares stages, and this is none of them.
    """
    if path is None and not FILE.exists():
        return Deployment()
    context = _context(path or FILE)
    return read_deployment(context, stage or context.get(STAGE))


def _context(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} could not be read: {error}") from error
    context = found.get("context", {}) if isinstance(found, dict) else None
    if not isinstance(context, dict):
        raise ConfigurationError(f"{path} must hold a JSON object, with another as its context")
    return context
