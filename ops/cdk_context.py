"""The stages that ``cdk.json`` describes, for commands that run without CDK."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from headgate.infra.stages import Stage, read_stage, read_standby_stage
from headgate.jobs.deployment.cdk_context import STAGE
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError
from headgate.ops.cdk_json import FILE, read_context
from headgate.workers.configuration import is_local


def default_stage(path: Path | None) -> str | None:
    """Return the stage that a ``cdk.json`` names, which is deployed when no other is asked for.

    Args:
        path: as `stage_from_cdk_json`'s.

    Raises:
        ConfigurationError: the file can't be read, is not JSON, or names something else.
    """
    if path is None and not FILE.exists():
        return None
    name = read_context(path or FILE).get(STAGE)
    if name is not None and not isinstance(name, str):
        raise ConfigurationError(f"{path or FILE}: {STAGE!r} must be a stage's name, got {name!r}")
    return name or None


def deployment_from_cdk_json(path: Path | None, stage: str | None) -> Deployment:
    """Return the deployment of a stage; see `stage_from_cdk_json`."""
    return stage_from_cdk_json(path, stage).deployment


def deployment_to_watch(stage: str | None, tell: Callable[[str], None]) -> Deployment | None:
    """Return the deployment of the working directory's ``cdk.json``, or None if it has none.

    A local AWS holds no stage of that file, so one that doesn't fit the app is told, and passed
    over: the app has no stage there.

    Raises:
        ConfigurationError: as `stage_from_cdk_json`, unless AWS is a local one.
    """
    try:
        return deployment_from_cdk_json(None, stage) if FILE.exists() else None
    except ConfigurationError as error:
        if not is_local(os.environ):
            raise
        tell(f"nothing of cdk.json is used on this local AWS: {error}")
        return None


def stage_from_cdk_json(path: Path | None, stage: str | None) -> Stage:
    """Return a stage: its deployment, its account and its region.

    Args:
        path: a ``cdk.json``; None: the working directory's, or `Deployment`'s defaults if it has
            none.
        stage: the app's stage; None: the file's default.

    Raises:
        ConfigurationError: the file can't be read, is not JSON, or holds no valid deployment; or it
            declares stages, and this is not one of them.
    """
    return stages_from_cdk_json(path, stage)[0]


def stages_from_cdk_json(path: Path | None, stage: str | None) -> tuple[Stage, Stage | None]:
    """Return a stage and its standby in another region, if it has one; see `stage_from_cdk_json`.

    Raises:
        ConfigurationError: as that, or the standby is not valid.
    """
    if path is None and not FILE.exists():
        return Stage(deployment=Deployment()), None
    context = read_context(path or FILE)
    name = stage or context.get(STAGE)
    return read_stage(name, context), read_standby_stage(name, context)
