"""The keys of a life's messages: the secret with those that sign, and the data keys that seal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headgate.jobs.core.concurrency import SideCall, Threads
from headgate.jobs.core.events import Events
from headgate.jobs.core.immediate import ImmediateSecretStore, drive
from headgate.jobs.core.keys.key_ring import DataKey
from headgate.jobs.definitions.policies import keyring_of, signing_secret_of
from headgate.jobs.messages.keyring import Keyring
from tests.simulation.actors import Actor
from tests.simulation.plan import FaultPlan

if TYPE_CHECKING:
    from tests.simulation.links import Link
    from tests.simulation.services import Aws
    from tests.simulation.world import World

_KEY_BYTES = 32


async def rotate(world: World) -> None:
    """Put another key into the secret at the planned time, as its rotation does."""
    if (at_s := world.plan.rotated_at_s) is None:
        return
    await asyncio.sleep(at_s)
    name = signing_secret_of(world.app)
    assert name is not None
    aws = world.aws
    before = [*aws.secrets.read(name)]
    aws.secrets.put(name, bytes(byte ^ 0xFF for byte in before[0][:_KEY_BYTES]))
    world.ledger.counts["rotated"] += 1
    world.ledger.log("rotated", name)


def synchronous_keyring(world: World, actor: Actor) -> Keyring | None:
    """Return the keys of signed messages for the code of a function; None if none are signed."""
    store = ImmediateSecretStore(world.aws.link(actor).secrets.sync)
    return keyring_of(world.app, store, _AtOnce(), actor.clock, Events())


class AsyncKeysLink:
    """A `jobs.core.keys.key_ring.AsyncKeys`."""

    def __init__(self, aws: Aws, link: Link) -> None:
        self._aws = aws
        self._link = link

    async def generate(self, key: str, context: Mapping[str, str]) -> DataKey:
        return await self._link.async_call(
            "keys",
            "generate",
            lambda: self._aws.keys.generate(key, context),
            fault=self._meet("generate"),
        )

    async def unwrap(self, key: str, wrapped: bytes, context: Mapping[str, str]) -> bytes:
        return await self._link.async_call(
            "keys",
            "unwrap",
            lambda: self._aws.keys.unwrap(key, wrapped, context),
            fault=self._meet("unwrap"),
        )

    def _meet(self, action: str) -> FaultPlan | None:
        return self._aws.faults.meet(self._link.actor, "keys", action, None)


class AsyncSecretsLink:
    """A `jobs.core.backend.AsyncSecretStore`, and by `sync` a synchronous one."""

    def __init__(self, aws: Aws, link: Link) -> None:
        self._aws = aws
        self._link = link
        self.sync = SecretsLink(aws, link)

    async def versions(self, name: str) -> Sequence[bytes]:
        fault = self._aws.faults.meet(self._link.actor, "secrets", "read", None)
        return await self._link.async_call(
            "secrets", "read", lambda: self._aws.secrets.versions(name), fault=fault
        )


class SecretsLink:
    """A `jobs.core.backend.SecretStore`."""

    def __init__(self, aws: Aws, link: Link) -> None:
        self._secrets = aws.secrets.sync
        self._link = link

    def versions(self, name: str) -> Sequence[bytes]:
        return self._link.call("secrets", "read", lambda: self._secrets.versions(name))


class _AtOnce(Threads):
    """Threads whose calls beside the others are made at once: a real thread has no virtual time."""

    def begin(self, call: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> SideCall:  # noqa: ARG002 - of threads
        drive(call())
        return _Over()


class _Over:
    """A call that has ended."""

    is_over = True

    async def wait(self, _at_most_s: float | None) -> None:
        """Return at once."""

    async def end(self) -> None:
        """Return at once."""
