"""``HEADGATE_PAUSED=1``: submitters continue as in an outage, and SQS is not called."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate import App, AsyncClient, Client
from headgate.jobs.errors import ServiceUnavailable, SettingsInvalid
from tests.support.spool_bench import EMAIL, Bench, Email


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("HEADGATE_PAUSED", "1")
    return Bench(tmp_path)


def client_on(bench: Bench, **options: Any) -> Client:
    return Client(bench.app, backend=bench.backend, **options)


def async_client_on(bench: Bench, **options: Any) -> AsyncClient:
    return AsyncClient(bench.app, backend=bench.backend, **options)


@pytest.mark.parametrize("delay", [timedelta(0), timedelta(minutes=5), timedelta(days=3)])
async def test_a_paused_submitter_refuses_without_asking_sqs(
    bench: Bench, delay: timedelta
) -> None:
    with client_on(bench) as client, pytest.raises(ServiceUnavailable, match="HEADGATE_PAUSED"):
        client.submit(bench.email, EMAIL, delay=delay)
    async with async_client_on(bench) as awaited:
        with pytest.raises(ServiceUnavailable, match="HEADGATE_PAUSED"):
            await awaited.submit(bench.email, EMAIL, delay=delay)

    assert bench.sqs.calls == []


async def test_a_paused_submitter_runs_jobs_in_place_if_it_may(bench: Bench) -> None:
    ran: list[Email] = []

    @bench.email.handler
    async def _(email: Email) -> None:
        ran.append(email)

    for job in (bench.noted, bench.order):
        job.handler(_)
    with client_on(bench, fallback="inline") as client:
        client.submit(bench.email, EMAIL)
    async with async_client_on(bench, fallback="inline") as awaited:
        await awaited.submit(bench.email, EMAIL)

    assert ran == [EMAIL, EMAIL]
    assert bench.sqs.calls == []


def test_what_a_paused_submitter_spools_is_sent_when_it_is_started_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client_on(bench, spool=bench.spool) as client:
        job = client.submit(bench.email, EMAIL)
    assert bench.sqs.calls == []

    monkeypatch.setenv("HEADGATE_PAUSED", "0")
    with client_on(bench, spool=bench.spool):
        pass  # closing sends the waiting jobs

    assert bench.sent() == [job.id]


def test_anything_but_1_and_0_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_PAUSED", "yes")
    with pytest.raises(SettingsInvalid, match="HEADGATE_PAUSED must be 1 or 0, got 'yes'"):
        Client(App("shop"))
