"""Bundles of jobs in one message, as a job type declares them: `Bundle`."""

from __future__ import annotations

from headgate.jobs.core.topology import MAX_MESSAGE_BYTES
from headgate.jobs.errors import ConfigurationError, SettingsInvalid
from headgate.jobs.values.kinds import check_kind
from headgate.jobs.values.light_dataclass import frozen_dataclass

LEAST_BYTES = 1_000
"""The least ``bytes``: the envelope of a job alone takes some hundred."""

DEFAULT_BYTES = 64_000
"""A little less than the 64 KiB by which SQS bills."""


@frozen_dataclass(frozen=True, slots=True, init=False)
class Bundle:
    """Jobs that are submitted together share messages: ``Bundle(bytes=64_000)``.

    Option of a job type; ``bundle=True`` is ``Bundle()``.

    Args:
        bytes: the most bytes of a message with several jobs, 1,000 to 1,048,576. Jobs that don't
            fit into one with another travel singly.

    Raises:
        SettingsInvalid: ``bytes`` is out of range.

    Example:
        >>> @app.job("embed", bundle=Bundle(bytes=200_000))
        ... async def embed(text: Text) -> None: ...  # doctest: +SKIP
    """

    bytes: int

    def __init__(self, *, bytes: int = DEFAULT_BYTES) -> None:  # noqa: A002 - the unit is the name
        check_kind("Bundle(bytes=...)", bytes, int)
        if not LEAST_BYTES <= bytes <= MAX_MESSAGE_BYTES:
            raise SettingsInvalid(
                f"Bundle(bytes=...) must lie between {LEAST_BYTES:,} and {MAX_MESSAGE_BYTES:,}, "
                f"SQS's limit for a message, got {bytes:,}"
            )
        object.__setattr__(self, "bytes", bytes)


def check_bundle(where: str, bundle: object) -> Bundle | None:
    """Return the checked ``bundle=`` of a job type; None if its jobs travel singly.

    Args:
        where: the name of its owner in errors.
        bundle: True, False or a `Bundle`.

    Raises:
        ConfigurationError: it is something else.
    """
    if isinstance(bundle, Bundle):
        return bundle
    if not isinstance(bundle, bool):
        raise ConfigurationError(
            f"{where}: bundle must be True, False or a Bundle, got {bundle!r}: write bundle=True, "
            "or bundle=Bundle(bytes=64_000)"
        )
    return Bundle() if bundle else None
