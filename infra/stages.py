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
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headgate.jobs.core.existing.arns import region_of
from headgate.jobs.core.existing.resources import Existing
from headgate.jobs.deployment.cdk_context import STAGES, existing_of, read_deployment
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.regions.standby import read_standby
from headgate.jobs.errors import ConfigurationError

if TYPE_CHECKING:
    from headgate.jobs.definitions.app import App

_ACCOUNT = re.compile(r"\d{12}")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The deployment, account and region of one stage.

    Raises:
        ConfigurationError: the account or the region is not valid for AWS, or something that exists
            is in another region.
    """

    deployment: Deployment
    account: str | None = None
    """The account's 12 digits; None: the credentials' account."""
    region: str | None = None
    """The region; None: the one of AWS's settings."""
    existing: Existing | None = None
    """The resources that something else created there; None: those that the app names."""

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
        if self.existing is not None and self.region is not None:
            self.existing.check_region(self.region)

    def app_in(self, app: App) -> App:
        """Return the app with the resources that exist in this place; itself if none are named.

        Raises:
            ConfigurationError: the app's code names other ones, or those of another region; or its
                keys and its secret by ARNs of another region.
        """
        self._check_keys(app)
        if self.existing is None:
            if self.deployment.standby and app.existing:
                raise ConfigurationError(
                    f"the app {app.name!r} names its existing resources itself, which are one "
                    'region\'s, and it has a standby in another: name them as "existing" in '
                    "cdk.json, those of the stage there and those of its standby within standby_in"
                )
            if self.region is not None:
                app.existing.check_region(self.region)
            return app
        here = copy(app)
        here.use_existing(self.existing)
        return here

    def _check_keys(self, app: App) -> None:
        keys = app.encryption.keys if app.encryption is not None else ()
        secret = app.signing.secret if app.signing is not None else None
        for name in filter(None, (*keys, secret)):
            if self.region is not None and region_of(name) not in (None, self.region):
                raise ConfigurationError(
                    f"the app {app.name!r} names {name}, which is in another region than "
                    f"{self.region}: name it by its alias, or the secret by its name, which each "
                    "region has for itself"
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
    deployment, existing = read_deployment(context, name), existing_of(context, name)
    if STAGES not in context:
        return Stage(deployment=deployment, existing=existing)
    place = {key: context[STAGES][name].get(key) for key in ("account", "region")}
    return Stage(deployment=deployment, existing=existing, **place)


def standby_stack(name: str) -> str:
    """Return the name of the standby's stack, by that of its stage's."""
    return f"{name}-standby"


def read_standby_stage(name: str | None, context: Mapping[str, Any]) -> Stage | None:
    """Return the standby of a stage, in its own region; None if it has none.

    Raises:
        ConfigurationError: as `read_stage`, or the standby's own fields are wrong.
    """
    if (standby := read_standby(context, name)) is None:
        return None
    return Stage(
        deployment=standby.deployment,
        account=context[STAGES][name].get("account"),
        region=standby.region,
        existing=standby.existing,
    )


def _is(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
