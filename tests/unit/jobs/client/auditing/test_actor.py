"""The actor: the client's actor, the environment's, or the one named for a block."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headgate import App, AsyncClient, Client, acting_as
from headgate.jobs.client.auditing.actor import process_actor
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.testing import MemoryBackend


def app() -> App:
    declared = App("shop")
    declared.define("note", dict)
    return declared


def actors(client: Client) -> Sequence[str]:
    client.pauses.create(job_type="note")
    return [each.actor for each in client.audit.list().entries]


def test_the_process_acts_unless_somebody_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADGATE_ACTOR", raising=False)
    assert actors(Client(app(), backend=MemoryBackend(app()))) == [process_actor()]
    assert "@" in process_actor()


def test_a_client_has_an_actor_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_ACTOR", "the nightly clean-up")
    assert actors(Client(app(), backend=MemoryBackend(app()))) == ["the nightly clean-up"]
    assert actors(Client(app(), actor="ada", backend=MemoryBackend(app()))) == ["ada"]


def test_a_name_for_a_block_goes_before_the_client_s() -> None:
    client = Client(app(), actor="web", backend=MemoryBackend(app()))
    with acting_as("ada"), acting_as("bob\n"):
        assert actors(client) == ["bob"]
    assert actors(client) == ["web", "bob"]


async def test_tasks_act_under_names_of_their_own() -> None:
    backend = MemoryBackend(app())
    async with AsyncClient(app(), actor="web", backend=backend) as client:
        entered = asyncio.Barrier(2)

        async def pause(name: str) -> str:
            with acting_as(name):
                await entered.wait()  # both are in their block now
                return (await client.pauses.create(tenant=name)).actor

        assert [*await asyncio.gather(pause("ada"), pause("bob"))] == ["ada", "bob"]


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, 5])
def test_a_name_that_is_none_is_refused(name: object) -> None:
    with pytest.raises(SettingsInvalid, match="1 to 100 characters"), acting_as(name):  # type: ignore[arg-type]
        pass


def test_a_client_with_too_long_an_actor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsInvalid, match="1 to 100 characters"):
        Client(app(), actor="x" * 101, backend=MemoryBackend(app()))
    monkeypatch.setenv("HEADGATE_ACTOR", "x" * 101)
    with pytest.raises(SettingsInvalid, match="HEADGATE_ACTOR"):
        Client(app(), backend=MemoryBackend(app()))
