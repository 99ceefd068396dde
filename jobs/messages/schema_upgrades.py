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
        value = _step(job_type, value, step, upgrades[step])
    return value


def _step(job_type: str, value: Any, version: int, upgrade: Upgrade) -> Any:
    try:
        return upgrade(value)
    except Exception as error:  # noqa: BLE001 - the user's code, which may raise anything
        complaint = (
            f"the payload of {job_type!r} can't be upgraded from schema {version} to "
            f"{version + 1}: its upgrade raised {type(error).__name__}"
        )
    # Not from the user's error, whose text may quote the payload: workers log this error.
    raise PayloadInvalid(complaint)
