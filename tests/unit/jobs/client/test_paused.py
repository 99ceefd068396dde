"""``HEADGATE_PAUSED=1``: submitters continue as in an outage, and SQS is not called."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate import App, Client
from headgate.jobs.errors import ServiceUnavailable, SettingsInvalid
from tests.support.clients import Kind
from tests.support.spool_bench import EMAIL, Bench, Email


@pytest.fixture
def bench(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("HEADGATE_PAUSED", "1")
    return Bench(tmp_path, kind)


@pytest.mark.parametrize("delay", [timedelta(0), timedelta(minutes=5), timedelta(days=3)])
async def test_a_paused_submitter_refuses_without_asking_sqs(
    bench: Bench, delay: timedelta
) -> None:
    async with bench.client(spool=None) as client:
        with pytest.raises(ServiceUnavailable, match="HEADGATE_PAUSED"):
            await client.submit(bench.email, EMAIL, delay=delay)
    assert bench.sqs.calls == []


async def test_a_paused_submitter_runs_jobs_in_place_if_it_may(bench: Bench) -> None:
    ran: list[Email] = []

    @bench.email.handler
    async def _(email: Email) -> None:
        ran.append(email)

    for job in (bench.noted, bench.order):
        job.handler(_)
    async with bench.client(spool=None, fallback="inline") as client:
        await client.submit(bench.email, EMAIL)
    assert ran == [EMAIL]
    assert bench.sqs.calls == []


async def test_what_a_paused_submitter_spools_is_sent_when_it_is_started_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench.client() as client:
        job = await client.submit(bench.email, EMAIL)
    assert bench.sqs.calls == []

    monkeypatch.setenv("HEADGATE_PAUSED", "0")
    async with bench.client():
        pass  # closing sends the waiting jobs

    assert bench.sent() == [job.id]


def test_anything_but_1_and_0_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_PAUSED", "yes")
    with pytest.raises(SettingsInvalid, match="HEADGATE_PAUSED must be 1 or 0, got 'yes'"):
        Client(App("shop"))


@pytest.mark.parametrize("options", [{}, {"spool": None, "fallback": "inline"}])
async def test_a_paused_submitter_says_that_nothing_takes_a_scheduled_job(
    bench: Bench, options: dict[str, Any]
) -> None:
    async def unused(_email: Email) -> None: ...

    for job in (bench.email, bench.noted, bench.order):
        job.handler(unused)
    async with bench.client(**options) as client:
        with pytest.raises(ServiceUnavailable, match="neither a spool nor a fallback") as raised:
            await client.submit(bench.email, EMAIL, delay=timedelta(hours=1))
    assert "spool=" not in str(raised.value)
