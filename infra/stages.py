"""The stages of an app in CDK's context: the deployment, account and region of each.

``cdk.json``::

    "context": {
      "headgate:app": "shop.app:app",
      "headgate:stage": "dev",
      "headgate:deployment": {"alerts_to": ["oncall@example.com"]},
      "headgate:stages": {
        "dev": {},
        "prod": {"account": "111122223333", "region": "eu-central-1", "budget_usd": 900}
      }
    }
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.jobs.deployment.cdk_context import STAGES, read_deployment
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError

_ACCOUNT = re.compile(r"\d{12}")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The deployment, account and region of one stage.

    Raises:
        ConfigurationError: the account or the region is not valid for AWS.
    """

    deployment: Deployment
    account: str | None = None
    """The account's 12 digits; None: the credentials' account."""
    region: str | None = None
    """The region; None: the one of AWS's settings."""

    def __post_init__(self) -> None:
        # In JSON it may be a number, which loses an account's leading zeros.
        if self.account is not None and not _is(_ACCOUNT, self.account):
            raise ConfigurationError(
                f"a stage's account must be a string of 12 digits, got {self.account!r}"
            )
        if self.region is not None and not _is(_REGION, self.region):
            raise ConfigurationError(
                f"a stage's region must be one of AWS's, such as eu-central-1, got {self.region!r}"
            )


def asked_for(context: str | None, environment: str | None) -> str | None:
    """Return the stage to deploy: the context's, else ``HEADGATE_STAGE``.

    Raises:
        ConfigurationError: they differ. CDK doesn't tell whether ``cdk.json`` or the command line
            set the context's, so it isn't known which one is meant.
    """
    if context and environment and context != environment:
        raise ConfigurationError(
            f'the context\'s "headgate:stage" is {context!r}, and HEADGATE_STAGE is '
            f"{environment!r}: unset HEADGATE_STAGE, or pass -c headgate:stage={environment}"
        )
    return context or environment


def read_stage(name: str | None, context: Mapping[str, Any]) -> Stage:
    """Return one stage of CDK's context; any name is valid where it declares none.

    Args:
        name: the stage's name; None: the app has no stages.
        context: Headgate's part of CDK's context.

    Raises:
        ConfigurationError: it isn't declared, or one of its fields is unknown or out of range.
    """
    deployment = read_deployment(context, name)
    if STAGES not in context:
        return Stage(deployment=deployment)
    place = {key: context[STAGES][name].get(key) for key in ("account", "region")}
    return Stage(deployment=deployment, **place)


def _is(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
