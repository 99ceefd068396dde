"""Headgate's keys in CDK's context: the app, its deployment, and the overrides of each stage.

``cdk.json`` may say::

    "context": {
      "headgate:app": "shop.app:app",
      "headgate:deployment": {"alerts_to": ["oncall@example.com"]},
      "headgate:stages": {"prod": {"workers": [{"min_tasks": 2, "max_tasks": 20}]}}
    }
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.jobs.errors import ConfigurationError, did_you_mean

COMMON = "headgate:deployment"
"""Key in CDK's context for the fields that all stages share."""

STAGES = "headgate:stages"
"""Key in CDK's context for the fields that each stage adds or replaces."""

STAGE = "headgate:stage"
"""Key in CDK's context that selects one of the stages."""

_PREFIX = "headgate:"
_KEYS = (f"{_PREFIX}app", STAGE, COMMON, STAGES)
_PLACE = ("account", "region")


def is_ours(key: str) -> bool:
    """Return True for a key of CDK's context that is Headgate's, or was meant to be."""
    return key.startswith(_PREFIX)


def layers(context: Mapping[str, Any], stage: str | None) -> tuple[Mapping[str, Any], ...]:
    """Return the deployment's fields in JSON: those of all stages, and those of this one.

    The stage's place on AWS, its account and region, is left out.

    Raises:
        ConfigurationError: a key of Headgate's is unknown or not an object, or stages are declared
            and this is not one of them.
    """
    for key in context:
        if is_ours(key) and key not in _KEYS:
            raise ConfigurationError(
                f"CDK's context has {key!r}, which means nothing: {did_you_mean(key, _KEYS)}"
            )
    common = _layer(COMMON, context.get(COMMON, {}))
    own = _of_stage(context, stage)
    return common, {key: own[key] for key in own if key not in _PLACE}


def _of_stage(context: Mapping[str, Any], stage: str | None) -> Mapping[str, Any]:
    if STAGES not in context:
        return {}
    stages = _layer(STAGES, context[STAGES])
    if stage is None:
        raise ConfigurationError(
            f"cdk.json declares the stages {', '.join(sorted(stages))}: say which one is meant, "
            f'with HEADGATE_STAGE, by default as "{STAGE}" in its context, or for CDK with '
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
