"""Each action is entered before it is carried out, and again with its outcome."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, AuditEntry, DeadLetterFilter, JobFilter, Schedule, cron
from headgate.jobs.errors import (
    AuditFailed,
    HeadgateError,
    JobNotEnded,
    SettingsInvalid,
    Throttled,
)
from headgate.jobs.records.audit.entry import AUDIT, AuditAction, AuditOutcome
from headgate.jobs.retry.signals import DoNotRetry
from headgate.jobs.testing import DrainUnfinished, Harness
from headgate.jobs.testing.deployed import deploy_schedules
from tests.support.clients import Kind, awaited

ALL = DeadLetterFilter()
SECRET = "4111-1111"  # noqa: S105 - part of a payload
HOURLY = Schedule.rate(timedelta(hours=1))


class Note(BaseModel):
    text: str = SECRET


class Shop:
    """An app with a dead letter, and a client of either kind."""

    def __init__(self, kind: Kind) -> None:
        self.app = App("shop", priorities="all", records="full")

        @self.app.job("note")
        def note(note: Note) -> None:
            raise DoNotRetry(f"it is not possible: {note.text}")

        @self.app.job("weekly", schedule=cron("0 6 ? * MON *"))
        def weekly() -> None: ...

        self.note = note
        self.jobs = Harness(self.app)
        self.client: Any
        self.is_sync = kind == "Client"
        self.client = awaited(self.jobs.client) if self.is_sync else self.jobs.async_client

    async def dead(self) -> str:
        """Have a job die; returns its id."""
        job = await self.client.submit(self.note, Note(), tenant="acme")
        await self.jobs.adrain()
        self.jobs.clock.advance(1)
        return str(job.id)

    async def erase(self, tenant: str, *, dry_run: bool = False) -> None:
        if self.is_sync:
            self.jobs.client.erase(tenant=tenant, dry_run=dry_run)
        else:
            await self.jobs.async_client.erase(tenant=tenant, dry_run=dry_run)

    async def entries(self) -> list[AuditEntry]:
        return [*(await self.client.audit.list()).entries]


@pytest.fixture
def shop(kind: Kind) -> Shop:
    return Shop(kind)


# --- the actions ---------------------------------------------------------------------------------


async def _cancel(shop: Shop, _folder: Path) -> str:
    job = await shop.client.submit(shop.note, Note())
    await job.cancel("a mistake")
    return f"cancel job {job.id}"


async def _cancel_delayed(shop: Shop, _folder: Path) -> str:
    job = await shop.client.submit(shop.note, Note(), delay=timedelta(days=1))
    assert await shop.client.schedules.cancel_delayed(job.id)
    return f"cancel job {job.id}"


async def _rerun(shop: Shop, _folder: Path) -> str:
    job_id = await shop.dead()
    await shop.client.jobs.rerun(job_id)
    return f"rerun job {job_id}"


async def _replay(shop: Shop, _folder: Path) -> str:
    await shop.dead()
    await shop.client.dead_letters.replay(ALL, limit=1, set={"text": SECRET})
    return "replay dead letters all"


async def _abort(shop: Shop, _folder: Path) -> str:
    await shop.dead()
    letters = shop.client.dead_letters
    report = await letters.replay(ALL, rate=0.01, on_step=lambda _step: letters.stop())
    await letters.abort(report.id)
    return f"abort-replay replay {report.id}"


async def _resume_replay(shop: Shop, _folder: Path) -> str:
    await shop.dead()
    letters = shop.client.dead_letters
    report = await letters.replay(ALL, rate=0.01, on_step=lambda _step: letters.stop())
    await letters.resume(report.id)
    return f"resume-replay replay {report.id}"


async def _purge(shop: Shop, _folder: Path) -> str:
    await shop.dead()
    await shop.client.dead_letters.purge(DeadLetterFilter(types=("note",)), copy=False)
    return "purge dead letters types=note"


async def _restore(shop: Shop, _folder: Path) -> str:
    await shop.dead()
    await shop.client.dead_letters.purge(ALL)
    await shop.client.dead_letters.restore(ALL)
    return "restore copies all"


async def _export(shop: Shop, folder: Path) -> str:
    await shop.dead()
    await shop.client.dead_letters.export(ALL, to=folder / "letters.jsonl")
    return "export dead letters all"


async def _import(shop: Shop, folder: Path) -> str:
    await _export(shop, folder)
    await shop.client.dead_letters.import_(folder / "letters.jsonl")
    return "import dead letters of letters.jsonl"


async def _show(shop: Shop, _folder: Path) -> str:
    job_id = await shop.dead()
    await shop.client.dead_letters.show(job_id, payload=True)
    return f"show-payload dead letter {job_id}"


async def _show_copy(shop: Shop, _folder: Path) -> str:
    job_id = await shop.dead()
    await shop.client.dead_letters.purge(ALL)
    await shop.client.dead_letters.show_copy(job_id, payload=True)
    return f"show-payload copy {job_id}"


async def _pause(shop: Shop, _folder: Path) -> str:
    await shop.client.pauses.create(queue="jobs", priority="low", reason="why")
    return "pause queue jobs/low"


async def _resume(shop: Shop, _folder: Path) -> str:
    await shop.client.pauses.create(tenant="acme")
    await shop.client.pauses.remove(tenant="acme")
    return "resume tenant acme"


async def _schedule(shop: Shop, _folder: Path) -> str:
    await shop.client.schedules.create("own", shop.note, Note(), schedule=HOURLY)
    return "create-schedule schedule own"


def _of_schedule(verb: str) -> Callable[[Shop, Path], Awaitable[str]]:
    async def act(shop: Shop, folder: Path) -> str:
        await _schedule(shop, folder)
        schedules = shop.client.schedules
        if verb == "change":
            await schedules.reschedule("own", schedule=HOURLY)
        elif verb == "run":
            await schedules.run_now("own")
        else:
            await getattr(schedules, verb)("own")
        return f"{verb}-schedule schedule own"

    return act


async def _reset(shop: Shop, _folder: Path) -> str:
    deploy_schedules(shop.app, shop.jobs.scheduler)
    await shop.client.schedules.reset("weekly")
    return "reset-schedule schedule weekly"


async def _erase(shop: Shop, _folder: Path) -> str:
    await shop.erase("acme")
    return "erase tenant acme"


ACTS = {
    "cancel": _cancel,
    "cancel delayed": _cancel_delayed,
    "rerun": _rerun,
    "replay": _replay,
    "resume-replay": _resume_replay,
    "abort-replay": _abort,
    "purge": _purge,
    "restore": _restore,
    "import": _import,
    "export": _export,
    "show-payload": _show,
    "show-payload of a copy": _show_copy,
    "pause": _pause,
    "resume": _resume,
    "create-schedule": _schedule,
    **{f"{verb}-schedule": _of_schedule(verb) for verb in ("change", "remove", "pause", "resume")},
    "run-schedule": _of_schedule("run"),
    "reset-schedule": _reset,
    "erase": _erase,
}


def test_every_action_is_tried_below() -> None:
    assert ACTS.keys() >= set(AuditAction)


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
async def test_an_action_is_in_the_audit_and_the_log_without_any_payload(
    act: Callable[[Shop, Path], Awaitable[str]],
    shop: Shop,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "headgate.audit")
    told = await act(shop, tmp_path)
    last = (await shop.entries())[0]
    assert f"{last.action} {last.target}" == told
    assert (last.outcome, last.error_type) == (AuditOutcome.DONE, "")
    assert last.ended_at is not None
    assert last.ended_at >= last.at
    line = caplog.records[-1]
    assert line.message == f"{last.actor}: {told}: done"
    assert (line.__dict__["action"], line.__dict__["actor"]) == (last.action, last.actor)
    items = await shop.jobs.table.query(AUDIT)
    assert SECRET not in repr(items)
    assert SECRET not in repr([each.__dict__ for each in caplog.records])


async def test_actions_on_many_are_one_entry_with_their_number(shop: Shop) -> None:
    for _ in range(3):
        await shop.dead()
    await shop.client.dead_letters.purge(ALL)
    [purged] = await shop.entries()
    assert (purged.count, purged.detail) == (3, "")


async def test_jobs_cancelled_by_a_filter_are_one_entry(shop: Shop) -> None:
    flaky = shop.app.define("flaky", Note)

    @flaky.handler
    def fail(_note: Note) -> None:
        raise ConnectionError

    chosen = JobFilter(types=("flaky",), tenants=("acme",))
    assert not (await shop.client.jobs.cancel(chosen)).jobs
    await shop.client.submit_many(flaky, [Note()] * 2, tenant="acme")
    with pytest.raises(DrainUnfinished):
        await shop.jobs.adrain(max_runs=2)
    assert len((await shop.client.jobs.cancel(chosen, dry_run=True)).jobs) == 2
    assert await shop.entries() == []  # nothing was done
    await shop.client.jobs.cancel(chosen, reason="why")
    [entry] = await shop.entries()
    assert str(entry.target) == "jobs types=flaky tenants=acme"
    assert (entry.action, entry.count, entry.reason) == ("cancel", 2, "why")


async def test_what_only_looks_or_rehearses_is_no_entry(shop: Shop) -> None:
    job_id = await shop.dead()
    await shop.client.jobs.list()
    await shop.client.dead_letters.list()
    await shop.client.dead_letters.show(job_id)
    await shop.client.dead_letters.replay(ALL, dry_run=True)
    await shop.erase("acme", dry_run=True)
    await shop.client.pauses.list()
    assert await shop.entries() == []


async def test_a_cancellation_names_its_actor_in_the_job_s_history(shop: Shop) -> None:
    job = await shop.client.submit(shop.note, Note())
    await job.cancel("a mistake")
    record = await job.history()
    [entry] = await shop.entries()
    assert (record.cancel_actor, record.cancel_reason) == (entry.actor, "a mistake")
    assert entry.reason == "a mistake"


# --- what goes wrong -----------------------------------------------------------------------------


async def test_an_action_that_fails_is_entered_with_the_class_of_its_error(shop: Shop) -> None:
    job = await shop.client.submit(shop.note, Note())
    with pytest.raises(JobNotEnded):
        await shop.client.jobs.rerun(job.id)
    [entry] = await shop.entries()
    assert (entry.outcome, entry.error_type) == (AuditOutcome.FAILED, "JobNotEnded")


async def test_what_is_refused_by_its_arguments_is_no_entry(shop: Shop) -> None:
    with pytest.raises(HeadgateError):
        await shop.client.pauses.create(queue="none")
    with pytest.raises(SettingsInvalid, match="at most 300"):
        await shop.client.handle(await shop.dead()).cancel("x" * 301)
    assert await shop.entries() == []


async def test_nothing_is_done_that_cant_be_entered(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    await shop.dead()
    shop.jobs.table.faults.raise_on("replace", Throttled("the table is busy"))
    with pytest.raises(AuditFailed, match=r"nothing was done.* the table is busy"):
        await shop.client.dead_letters.purge(ALL)
    assert len(shop.jobs.dead_letters()) == 1
    assert await shop.entries() == []
    assert caplog.records[-1].__dict__["outcome"] == "refused"
    assert "purge dead letters all: refused" in caplog.records[-1].message


async def test_an_action_stands_whose_outcome_cant_be_entered(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    await shop.dead()
    faults = shop.jobs.table.faults

    class File(StringIO):
        def write(self, line: str) -> int:
            faults.raise_on("replace", Throttled("the table is busy"))
            return super().write(line)

    found = await shop.client.dead_letters.export(ALL, to=File())
    assert found.exported == 1
    [entry] = await shop.entries()
    assert (entry.action, entry.outcome) == ("export", None)
    assert "missing in the audit: the table is busy" in caplog.text


async def test_an_entry_whose_answer_was_lost_counts(shop: Shop) -> None:
    shop.jobs.table.faults.raise_on("replace", Throttled("no answer"), applied=True)
    with pytest.raises(AuditFailed):
        await shop.client.pauses.create(tenant="acme")
    [entry] = await shop.entries()
    assert (entry.action, entry.outcome) == ("pause", None)
    assert await shop.client.pauses.list() == []


async def test_entries_are_kept_for_as_long_as_the_app_says(kind: Kind) -> None:
    app = App("shop", keep_audit=timedelta(days=2))
    app.define("note", Note)
    harness = Harness(app)
    client: Any = awaited(harness.client) if kind == "Client" else harness.async_client
    await client.pauses.create(job_type="note")
    harness.clock.advance(timedelta(days=1, hours=23))
    assert len((await client.audit.list()).entries) == 1
    harness.clock.advance(timedelta(hours=2))
    assert (await client.audit.list()).entries == []


@pytest.mark.parametrize("keep", [0, -1, "a year", timedelta(days=40_000)])
def test_a_retention_that_is_none_is_refused(keep: Any) -> None:
    with pytest.raises(HeadgateError, match="keep_audit"):
        App("shop", keep_audit=keep)
