"""Sessions are summarized, exported, and cleaned up in short jobs."""

from __future__ import annotations

import json
from datetime import timedelta

from examples.assistant.sessions import (
    CleanUp,
    Export,
    SessionId,
    clean_sessions,
    export_sessions,
    summarize_session,
)
from examples.assistant.store import Session, TenantData
from headgate.testing import Harness, VirtualClock

WEEK = timedelta(days=7)


def add(data: TenantData, clock: VirtualClock, name: str, *messages: str) -> None:
    data.sessions[name] = Session(id=name, user="ada", last_at=clock.now(), messages=[*messages])


def test_a_summary_is_stored_and_returned(
    jobs: Harness, data: TenantData, clock: VirtualClock
) -> None:
    add(data, clock, "s-1", "Cats eat fish. It rains.", "Cats sleep.")
    wanted = SessionId(id="s-1", sentences=1)
    handle = jobs.client.submit(summarize_session, wanted, tenant="org-1")
    jobs.drain()
    assert handle.result() == data.sessions["s-1"].summary == "Cats sleep."


def test_a_clean_up_summarizes_before_it_deletes(
    jobs: Harness, data: TenantData, clock: VirtualClock
) -> None:
    add(data, clock, "empty")
    add(data, clock, "full", "Cats sleep.")
    clock.advance(WEEK)
    add(data, clock, "young")
    for kept in (["full", "young"], ["young"]):
        jobs.client.submit(clean_sessions, CleanUp(idle=WEEK), tenant="org-1")
        jobs.drain()
        assert list(data.sessions) == kept


def test_a_large_clean_up_goes_on_in_further_jobs(
    jobs: Harness, data: TenantData, clock: VirtualClock
) -> None:
    for number in range(25):
        add(data, clock, f"s-{number}")
    clock.advance(WEEK)
    jobs.client.submit(clean_sessions, CleanUp(idle=WEEK, most=10), tenant="org-1")
    jobs.drain()
    assert data.sessions == {}
    assert len(jobs.completed(clean_sessions)) == 3


def test_every_hour_each_tenant_s_sessions_are_cleaned_up(
    jobs: Harness, data: TenantData, clock: VirtualClock
) -> None:
    add(data, clock, "old")
    clock.advance(WEEK)
    jobs.clock.advance(timedelta(hours=1))
    [hourly] = jobs.submitted(clean_sessions)
    assert hourly.payload == CleanUp(idle=WEEK, most=500)
    jobs.drain()
    assert data.sessions == {}


def test_an_export_has_a_session_a_line(
    jobs: Harness, data: TenantData, clock: VirtualClock
) -> None:
    add(data, clock, "s-1", "Hello")
    add(data, clock, "s-2", "Bye")
    handle = jobs.client.submit(export_sessions, Export(user="ada"), tenant="org-1")
    jobs.drain()
    lines = [json.loads(line) for line in data.exports["ada"].splitlines()]
    assert handle.result() == 2
    assert [(each["id"], each["messages"]) for each in lines] == [
        ("s-1", ["Hello"]),
        ("s-2", ["Bye"]),
    ]
