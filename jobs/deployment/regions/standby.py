"""The standby of a stage: the same app in a second region, deployed and waiting to take over.

``cdk.json``::

    "headgate:stages": {
      "prod": {
        "account": "111122223333",
        "region": "eu-central-1",
        "standby_in": {"region": "eu-west-1"}
      }
    }

Its fields are the stage's, but for what `Deployment.as_standby` says and for those that stand
beside its ``region``. What belongs to one region has to be among these: a key, secrets, a VPC, and
``existing`` resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from headgate.jobs.core.existing.arns import region_of
from headgate.jobs.core.existing.resources import Existing, read_existing
from headgate.jobs.deployment.cdk_context import (
    EXISTING,
    STAGES,
    STANDBY,
    existing_of,
    is_declared,
    parse_deployment,
    read_deployment,
)
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import frozen_dataclass

_REGION = "region"


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class StandbyRegion:
    """The region that waits, and the deployment there."""

    region: str
    deployment: Deployment
    existing: Existing | None
    """The resources that something else created there; None: the stage names none at all."""


def read_standby(context: Mapping[str, Any], stage: str | None) -> StandbyRegion | None:
    """Return the standby of a stage; None if it has none.

    Args:
        context: CDK's context, or Headgate's part of it.
        stage: the stage's name; None: the app has no stages.

    Raises:
        ConfigurationError: as `read_deployment`; or the standby or its stage names no region, both
            name the same, the standby would use what is in the other region, or it doesn't say
            what stands there for the stage's existing resources.
    """
    active = read_deployment(context, stage)
    own = context.get(STAGES, {}).get(stage, {})
    if STANDBY not in own:
        return None
    where, said = _path_of(stage), _standby_of(stage, own)
    _check_regions(where, own.get(_REGION), said[_REGION])
    fields = {name: said[name] for name in said if name not in (_REGION, EXISTING)}
    given = parse_deployment(fields)
    deployment = replace(
        active.as_standby(), **{name: getattr(given, name) for name in fields}, standby=True
    )
    for what in _elsewhere(deployment, fields, said[_REGION]):
        raise ConfigurationError(
            f"{where}: {what} is in another region than {said[_REGION]}: name one there, beside "
            "the standby's region"
        )
    existing = _existing(where, said, existing_of(context, stage))
    return StandbyRegion(region=said[_REGION], deployment=deployment, existing=existing)


def existing_in(
    context: Mapping[str, Any], stage: str | None, region: Callable[[], str | None]
) -> Existing | None:
    """Return what exists for a stage in a region, its own or its standby's.

    Args:
        context: CDK's context, or Headgate's part of it.
        stage: the stage's name; None: the app has no stages.
        region: returns the region; called only if the stage has a standby.

    Returns:
        the resources, or None if the context says nothing of any there. It does so of no stage that
        it doesn't declare, unless it declares none.

    Raises:
        ConfigurationError: as `existing_of` and `read_standby`.
    """
    if not is_declared(context, stage):
        return None
    existing = existing_of(context, stage)
    own = context.get(STAGES, {}).get(stage, {})
    if STANDBY not in own or (standby := _standby_of(stage, own))[_REGION] != region():
        return existing
    return _existing(_path_of(stage), standby, existing)


def _existing(where: str, said: Mapping[str, Any], active: Existing | None) -> Existing | None:
    """Return what exists in the standby's region, which can't be derived from the other's."""
    region = said[_REGION]
    if EXISTING not in said:
        if active:
            raise ConfigurationError(
                f'{where}: the stage has "existing" resources, which are its own region\'s: name '
                f'those in {region} as "existing" here, or write {{}} to have all of them created'
            )
        return None
    found = read_existing(said[EXISTING])
    found.check_region(region)
    if active and active.bucket_name and found.bucket_name == active.bucket_name:
        raise ConfigurationError(
            f"{where}: the bucket {found.bucket_name!r} is the stage's own, and in one region: "
            f"name one in {region}"
        )
    return found


def _path_of(stage: str | None) -> str:
    """Return where a standby stands in the context."""
    return f"{STAGES}.{stage}.{STANDBY}"


def _standby_of(stage: str | None, own: Mapping[str, Any]) -> Mapping[str, Any]:
    said = own[STANDBY]
    if not isinstance(said, Mapping) or not isinstance(said.get(_REGION), str):
        raise ConfigurationError(
            f"{_path_of(stage)} must be an object that names a region, such as "
            f'{{"region": "eu-west-1"}}, got {said!r}'
        )
    return said


def _check_regions(where: str, active: Any, standby: str) -> None:
    if active is None:
        raise ConfigurationError(f"{where}: name the region of the stage itself, too")
    if active == standby:
        raise ConfigurationError(f"{where}: its region is the stage's own, {standby!r}")


def _elsewhere(deployment: Deployment, fields: Mapping[str, Any], region: str) -> Iterator[str]:
    """Yield what belongs to another region, as an error names it."""
    for name in ("vpc", "cluster"):
        if getattr(deployment, name) is not None and name not in fields:
            yield name
    for name in ("encryption_key", "log_key"):
        if _of_another(getattr(deployment, name), region):
            yield name
    if deployment.console is not None:
        if _of_another(deployment.console.certificate, region):
            yield "the console's certificate"
        if _of_another(deployment.console.sign_in.client_secret, region):
            yield "the console's client_secret"
    secrets = (deployment.secrets, *(group.secrets for group in deployment.workers))
    for name, source in ((name, each[name]) for each in secrets for name in each):
        if _of_another(source, region):
            yield f"the secret {name}"


def _of_another(source: str | None, region: str) -> bool:
    return source is not None and region_of(source) not in (None, region)
