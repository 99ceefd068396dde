"""Upgrades of older payloads: functions from one version's JSON values to the next version's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from headgate.jobs.errors import ConfigurationError, PayloadInvalid

Upgrade = Callable[[Any], Any]
"""A function from the JSON values of one payload version to those of the next."""


def check_upgrades(job_type: str, schema: int, upgrades: Any) -> None:
    """Check a type's ``upgrade=`` option.

    Raises:
        ConfigurationError: a version is out of range, one is missing between the first and
            ``schema``, or an upgrade is not a synchronous function.
    """
    where = f"the type {job_type!r}: upgrade"
    if not isinstance(upgrades, Mapping):
        raise ConfigurationError(
            f"{where} must map versions to functions, got {upgrades!r}: write {{1: from_1_to_2}}"
        )
    for version, upgrade in upgrades.items():
        if not isinstance(version, int) or not 1 <= version < schema:
            raise ConfigurationError(
                f"{where} reads versions before schema={schema}, from 1 on, got {version!r}"
            )
        if not callable(upgrade) or inspect.iscoroutinefunction(upgrade):
            raise ConfigurationError(
                f"{where}[{version}] must be a plain function from JSON values to JSON values, "
                f"got {upgrade!r}"
            )
    missing = set(range(min(upgrades, default=schema), schema)) - upgrades.keys()
    if missing:
        raise ConfigurationError(
            f"{where} leads from version {min(upgrades)} to {schema}, one step at a time, and has "
            f"none from {', '.join(map(str, sorted(missing)))}"
        )


def check_upgrade_from(job_type: str, upgrades: Any) -> None:
    """Check a type's ``upgrade_from=`` option.

    Raises:
        ConfigurationError: it names the type itself, or an upgrade is not a synchronous function.
    """
    where = f"the type {job_type!r}: upgrade_from"
    if not isinstance(upgrades, Mapping) or not all(isinstance(name, str) for name in upgrades):
        raise ConfigurationError(
            f"{where} must map names of other types to functions, got {upgrades!r}: write "
            '{"send-email": from_email}'
        )
    if job_type in upgrades:
        raise ConfigurationError(
            f"{where} is about other types' payloads: older ones of {job_type!r} itself are read "
            "by upgrade={1: from_1_to_2}"
        )
    for name, upgrade in upgrades.items():
        if not callable(upgrade) or inspect.iscoroutinefunction(upgrade):
            raise ConfigurationError(
                f"{where}[{name!r}] must be a plain function from JSON values to JSON values, got "
                f"{upgrade!r}"
            )


def upgraded_from(job_type: str, former: str, value: Any, upgrades: Mapping[str, Upgrade]) -> Any:
    """Return a payload of the type ``former`` as one of ``job_type``.

    A type without an upgrade for it reads the payload as it is.

    Raises:
        PayloadInvalid: the upgrade raised; the error's message quotes nothing of the payload.
    """
    if (upgrade := upgrades.get(former)) is None:
        return value
    return _applied(
        upgrade,
        deepcopy(value),  # it may mutate its argument; the letter must not change
        f"the payload of {former!r} can't be upgraded to {job_type!r}",
    )


def upgraded(
    job_type: str, value: Any, *, version: int, schema: int, upgrades: Mapping[int, Upgrade]
) -> Any:
    """Upgrade a payload's JSON values from ``version`` to ``schema``.

    A type without upgrades reads older payloads as they are.

    Raises:
        PayloadInvalid: the type upgrades later versions only, or a step raised; the error's message
            quotes nothing of the payload.
    """
    if version >= schema or not upgrades:
        return value
    if version not in upgrades:
        raise PayloadInvalid(
            f"the payload of {job_type!r} is of schema {version}; the type upgrades those from "
            f"{min(upgrades)} on"
        )
    value = deepcopy(value)  # a step may mutate its argument; the message must not change
    for step in range(version, schema):
        complaint = (
            f"the payload of {job_type!r} can't be upgraded from schema {step} to {step + 1}"
        )
        value = _applied(upgrades[step], value, complaint)
    return value


def _applied(upgrade: Upgrade, value: Any, complaint: str) -> Any:
    try:
        return upgrade(value)
    except Exception as error:  # noqa: BLE001 - the user's code, which may raise anything
        complaint = f"{complaint}: its upgrade raised {type(error).__name__}"
    # Not from the user's error, whose text may quote the payload: workers log this error.
    raise PayloadInvalid(complaint)
