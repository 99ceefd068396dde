"""Memories are stored once, become fewer, fade, and are erased on demand."""

from __future__ import annotations

from datetime import timedelta

import pytest

from examples.assistant.embedder import LocalEmbedder
from examples.assistant.memory import (
    Consolidation,
    Fact,
    Forgetting,
    User,
    consolidate_memories,
    erase_user,
    forget_memories,
    merged,
    remember,
)
from examples.assistant.store import Memory, Store, TenantData
from headgate.testing import Harness, VirtualClock

TEA = ("I like green tea", "I like green tea very much", "Green tea is what I like")


def tell(jobs: Harness, *texts: str, user: str = "ada", tenant: str = "org-1") -> None:
    for text in texts:
        jobs.client.submit(remember, Fact(user=user, text=text), tenant=tenant)
    jobs.drain()


def test_a_fact_becomes_a_memory_of_its_tenant(jobs: Harness, store: Store) -> None:
    tell(jobs, "I like tea")
    [memory] = store.of("org-1").memories.values()
    assert (memory.user, memory.text, memory.importance) == ("ada", "I like tea", 0.5)
    assert store.of("org-2").memories == {}


def test_a_busy_model_is_asked_again(
    jobs: Harness, data: TenantData, embedder: LocalEmbedder
) -> None:
    embedder.busy_for.add("I like tea")
    tell(jobs, "I like tea")
    assert len(data.memories) == 1
    assert embedder.requests == [1, 1]


def test_like_memories_of_one_user_become_one(jobs: Harness, data: TenantData) -> None:
    tell(jobs, *TEA, "My train leaves at nine")
    tell(jobs, TEA[0], user="bob")
    handle = jobs.client.submit(consolidate_memories, Consolidation(threshold=0.7), tenant="org-1")
    jobs.drain()
    assert handle.result() == 2
    assert sorted((each.user, len(each.made_of)) for each in data.memories.values()) == [
        ("ada", 0),
        ("ada", 3),
        ("bob", 0),
    ]
    assert len(jobs.completed(forget_memories)) == 1


def test_a_second_run_changes_nothing(jobs: Harness, data: TenantData) -> None:
    tell(jobs, *TEA)
    for _ in range(2):
        jobs.client.submit(consolidate_memories, Consolidation(threshold=0.7), tenant="org-1")
        jobs.drain()
    assert len(data.memories) == 1


def test_a_merged_memory_weighs_more_and_has_the_same_id_every_time(
    jobs: Harness, data: TenantData
) -> None:
    tell(jobs, *TEA[:2])
    one, other = data.memories.values()
    one.importance = 0.6
    whole = merged([one, other])
    assert whole.text == one.text
    assert whole.importance == pytest.approx(0.8)
    assert merged([other, one]) == whole


def test_the_nightly_schedule_consolidates_for_each_tenant(jobs: Harness, store: Store) -> None:
    tell(jobs, *TEA)
    tell(jobs, *TEA, tenant="org-2")
    jobs.clock.advance(timedelta(hours=2))
    [nightly] = jobs.submitted(consolidate_memories)
    assert (nightly.payload, nightly.tenant) == (Consolidation(threshold=0.75), None)
    jobs.drain()
    assert [len(store.of(tenant).memories) for tenant in store.tenants()] == [1, 1]


def test_a_memory_fades_by_its_half_life_and_is_forgotten(
    jobs: Harness, data: TenantData, clock: VirtualClock
) -> None:
    tell(jobs, "A trifle")
    [trifle] = data.memories.values()
    data.memories["big"] = Memory(
        id="big", user="ada", text="", vector=(), importance=1.0, at=trifle.at
    )
    clock.advance(timedelta(days=40))
    wanted = Forgetting(half_life=timedelta(days=10), floor=0.05)
    handle = jobs.client.submit(forget_memories, wanted, tenant="org-1")
    jobs.drain()
    assert (handle.result(), list(data.memories)) == (1, ["big"])


def test_erasing_a_user_leaves_the_others(jobs: Harness, data: TenantData) -> None:
    tell(jobs, "I like tea")
    tell(jobs, "I like coffee", user="bob")
    handle = jobs.client.submit(erase_user, User(user="ada"), tenant="org-1")
    jobs.drain()
    assert handle.result() == 1
    assert [each.user for each in data.memories.values()] == ["bob"]


def test_a_job_without_its_tenant_is_dead_at_once_and_says_so(jobs: Harness) -> None:
    jobs.client.submit(erase_user, User(user="ada"))
    jobs.drain()
    [letter] = jobs.dead_letters(erase_user)
    assert letter.attributes["ErrorMessage"] == "a job of the type erase-user needs a tenant"
