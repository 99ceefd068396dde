"""The stages of an app in CDK's context: what runs its jobs in each, and where.

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

from headgate.jobs.deployment.cdk_context import STAGES
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError

_ACCOUNT = re.compile(r"\d{12}")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What one stage of an app has on AWS, and where.

    Raises:
        ConfigurationError: the account or the region is none of AWS's.
    """

    deployment: Deployment
    account: str | None = None
    """Its 12 digits; None: whichever the credentials are of."""
    region: str | None = None
    """None: whichever AWS's settings name."""

    def __post_init__(self) -> None:
        # JSON has numbers too, which lose an account's leading zeros.
        if self.account is not None and not _is(_ACCOUNT, self.account):
            raise ConfigurationError(
                f"a stage's account must be a text of 12 digits, got {self.account!r}"
            )
        if self.region is not None and not _is(_REGION, self.region):
            raise ConfigurationError(
                f"a stage's region must be one of AWS's, such as eu-central-1, got {self.region!r}"
            )


def asked_for(context: str | None, environment: str | None) -> str | None:
    """The stage to deploy: what the context says, or else ``HEADGATE_STAGE``.

    Raises:
        ConfigurationError: they say different things. CDK doesn't tell whether ``cdk.json`` or the
            command line named the context's, so neither is known to be the one that is meant.
    """
    if context and environment and context != environment:
        raise ConfigurationError(
            f'the context\'s "headgate:stage" is {context!r}, and HEADGATE_STAGE is '
            f"{environment!r}: unset HEADGATE_STAGE, or pass -c headgate:stage={environment}"
        )
    return context or environment


def read_stage(name: str | None, context: Mapping[str, Any]) -> Stage:
    """One stage of CDK's context; any name is one where it declares none.

    Args:
        name: which; None: the app has no stages.
        context: what CDK's has of Headgate.

    Raises:
        ConfigurationError: it isn't declared, or one of its fields is unknown or out of range.
    """
    deployment = Deployment.of_context(context, name)
    if STAGES not in context:
        return Stage(deployment=deployment)
    place = {key: context[STAGES][name].get(key) for key in ("account", "region")}
    return Stage(deployment=deployment, **place)


def _is(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
