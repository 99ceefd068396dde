"""The fields of payloads that a replay sets, sealed while the table holds them."""

from __future__ import annotations

from dataclasses import replace

from headgate.jobs.dead_letters.replaying.options import ReplayOptions
from headgate.jobs.errors import PayloadUnopenable
from headgate.jobs.messages.sealing import About, Seals

_ANY_TYPE = "*"
"""A replay may send jobs of several types."""


async def sealed_options(
    seals: Seals | None, replay_id: str, options: ReplayOptions
) -> ReplayOptions:
    """Return the options with what they set sealed, for the table; as they are without ``seals``.

    Raises:
        TransportError: KMS can't be asked for a data key, or refuses.
    """
    if seals is None or not options.set:
        return options
    sealed = await seals.seal(_about(replay_id), dict(options.set))
    return replace(options, sealed_set=sealed)


async def opened_options(
    seals: Seals | None, replay_id: str, options: ReplayOptions
) -> ReplayOptions:
    """Return the options, as read from the table, with what they set.

    Raises:
        PayloadUnopenable: nothing here will ever open it.
        TransportError: KMS can't be asked for the data key, or refuses.
    """
    if options.sealed_set is None:
        return options
    if seals is None:
        raise PayloadUnopenable(
            f"the fields that the replay {replay_id} sets are sealed, and this app has no "
            "encryption=: resume it with the app that began it"
        )
    return replace(options, set=await seals.open(_about(replay_id), options.sealed_set))


def _about(replay_id: str) -> About:
    return About(kind="replay", type=_ANY_TYPE, of=f"replay:{replay_id}")
