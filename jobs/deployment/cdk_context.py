"""The reading of Headgate's keys in CDK's context: the deployment of all stages, and of each.

``cdk.json`` may say::

    "context": {
      "headgate:app": "shop.app:app",
      "headgate:deployment": {"alerts_to": ["oncall@example.com"]},
      "headgate:stages": {"prod": {"workers": [{"min_tasks": 2, "max_tasks": 20}]}}
    }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from headgate.jobs.core.existing.resources import Existing, read_existing
from headgate.jobs.deployment.alarms.mutes import MuteWindow
from headgate.jobs.deployment.alarms.thresholds import Thresholds
from headgate.jobs.deployment.console.sign_in import SignIn
from headgate.jobs.deployment.console.web_console import WebConsole
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.surroundings import ExistingVpc, Hardening
from headgate.jobs.errors import ConfigurationError, did_you_mean
from headgate.jobs.values.faults import words_of

COMMON = "headgate:deployment"
"""Key in CDK's context for the fields that all stages share."""

STAGES = "headgate:stages"
"""Key in CDK's context for the fields that each stage adds or replaces."""

STAGE = "headgate:stage"
"""Key in CDK's context that selects one of the stages."""

STANDBY = "standby_in"
"""Key of a stage for its standby in another region; see `jobs.deployment.regions.standby`."""

EXISTING = "existing"
"""Field of all of these for the resources that something else created (`jobs.core.existing`)."""

_PREFIX = "headgate:"
_KEYS = (f"{_PREFIX}app", STAGE, COMMON, STAGES)
_NOT_DEPLOYED = ("account", "region", STANDBY, EXISTING)
"""Fields of a stage that are no part of its deployment."""

_PARTS = {
    "workers": WorkerGroup,
    "consumers": ConsumerGroup,
    "alarms": Thresholds,
    "vpc": ExistingVpc,
    "hardening": Hardening,
    "mutes": MuteWindow,
    "console": WebConsole,
    "console.sign_in": SignIn,
}
"""Classes of a deployment's fields that are not plain values."""

_SAID = {
    "tuple_type": "must be a list",
    "dataclass_type": "must be an object",
    "dict_type": "must be an object",
    "string_type": "must be a text",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "time_delta_type": "must be a number of seconds, 0 or more",
}
"""Messages for pydantic's types of errors, in the terms of JSON."""


def is_ours(key: str) -> bool:
    """Return True for a key of CDK's context that is Headgate's, or was meant to be."""
    return key.startswith(_PREFIX)


def is_declared(context: Mapping[str, Any], stage: str | None) -> bool:
    """Return True for a stage of CDK's context: one that it declares, or any if it declares none.

    Raises:
        ConfigurationError: its stages are no object.
    """
    return STAGES not in context or stage in _layer(STAGES, context[STAGES])


def read_deployment(context: Mapping[str, Any], stage: str | None) -> Deployment:
    """Return a stage's deployment: what all stages share, and what this one adds or replaces.

    The stage's place on AWS is no part of it, its account, its region and its standby, nor what
    exists there already.

    Args:
        context: CDK's context, or Headgate's part of it.
        stage: the stage's name; None: the app has no stages.

    Raises:
        ConfigurationError: as `parse_deployment`; or a key of Headgate's is unknown or not an
            object, or stages are declared and this is not one of them.
    """
    for key in context:
        if is_ours(key) and key not in _KEYS:
            raise ConfigurationError(
                f"CDK's context has {key!r}, which is unknown: {did_you_mean(key, _KEYS)}"
            )
    common = _layer(COMMON, context.get(COMMON, {}))
    own = _of_stage(context, stage)
    return parse_deployment(
        {key: common[key] for key in common if key != EXISTING},
        {key: own[key] for key in own if key not in _NOT_DEPLOYED},
    )


def existing_of(context: Mapping[str, Any], stage: str | None) -> Existing | None:
    """Return the resources of a stage that something else created; None if it says nothing of any.

    Raises:
        ConfigurationError: as `read_deployment`; or a field of theirs is unknown or invalid.
    """
    common = _layer(COMMON, context.get(COMMON, {}))
    found = _of_stage(context, stage).get(EXISTING, common.get(EXISTING))
    return None if found is None else read_existing(found)


def parse_deployment(*layers: Mapping[str, Any]) -> Deployment:
    """Parse a deployment's fields in JSON; later layers replace whole fields of earlier ones.

    Raises:
        ConfigurationError: a field is unknown, of another type, or out of range; it says which.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        merged |= layer
    try:
        return _adapter().validate_python(merged)
    except ValidationError as error:
        raise ConfigurationError(_first_of(error)) from error


def _of_stage(context: Mapping[str, Any], stage: str | None) -> Mapping[str, Any]:
    if STAGES not in context:
        return {}
    stages = _layer(STAGES, context[STAGES])
    if stage is None:
        raise ConfigurationError(
            f"cdk.json declares the stages {', '.join(sorted(stages))}: choose one with "
            f'HEADGATE_STAGE, by default as "{STAGE}" in its context, or for CDK with '
            f"-c {STAGE}=..."
        )
    if stage not in stages:
        raise ConfigurationError(
            f"the stage {stage!r} is not in cdk.json's {STAGES}: {did_you_mean(stage, stages)}"
        )
    return _layer(f"{STAGES}.{stage}", stages[stage])


def _layer(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{name} in CDK's context must be an object, got {value!r}")
    return value


def _first_of(error: ValidationError) -> str:
    """Describe the first error in the terms of JSON rather than Python's."""
    first = error.errors(include_url=False)[0]
    kind, where = first["type"], ".".join(map(str, first["loc"]))
    if kind == "unexpected_keyword_argument":
        within = [each for each in first["loc"][:-1] if isinstance(each, str)]
        part = _PARTS.get(".".join(within)) or _PARTS.get("".join(within[:1]), Deployment)
        known = [each.name for each in fields(part)]
        said = did_you_mean(str(first["loc"][-1]), known)
        return f"the deployment's {where}: there is no such field: {said}"
    said = _SAID.get(kind, words_of(first).lower())
    return f"the deployment's {where}: {said}, got {first['input']!r}"


@cache
def _adapter() -> TypeAdapter[Deployment]:
    """Build the adapter on first use: a command that reads no deployment starts without it."""
    return TypeAdapter(Deployment)
