"""``headgate erase``: it counts and asks, deletes, and says what is left."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headgate import App, Client
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.testing import VirtualClock
from tests.support.backends import over
from tests.support.command_line import CommandLine, Ended
from tests.support.sweep_bench import SweepBench


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> SweepBench:
    """Two tenants' dead letters, in place of AWS's."""
    app = App("shop", stage="test", records="outcomes", long_delays=False)
    app.define("send-email", dict[str, str])
    made = SweepBench(app, clock=VirtualClock(datetime.now(UTC) - timedelta(minutes=30)))
    backend = over(made.sqs.sync, table=made.table.sync, store=made.store.sync, clock=made.clock)
    monkeypatch.setattr(
        "headgate.jobs.client.client.Client", lambda _app: Client(app, backend=backend)
    )
    monkeypatch.setenv("COLUMNS", "80")
    for tenant in ("acme", "other"):
        made.die("send-email", tenant={"org": tenant})
    return made


class Erasing:
    def __init__(self, headgate: CommandLine) -> None:
        self._headgate = headgate

    def __call__(self, *words: str) -> Ended:
        return self._headgate("erase", *words, app="cli_shop:app")


@pytest.fixture
def erase(bench: SweepBench, headgate: CommandLine) -> Erasing:  # noqa: ARG001 - in place of AWS's
    return Erasing(headgate)


def test_a_dry_run_counts_and_deletes_nothing(bench: SweepBench, erase: Erasing) -> None:
    ended = erase("--tenant", "acme", "--dry-run")

    assert ended.code == 0
    assert "This would be deleted of acme." in ended.out
    assert bench.visible() == 2


def test_without_confirmation_nothing_is_deleted(bench: SweepBench, erase: Erasing) -> None:
    ended = erase("--tenant", "acme")

    assert ended.code == 1
    assert bench.visible() == 2


def test_the_tenants_letter_is_deleted_and_the_others_is_not(
    bench: SweepBench, erase: Erasing
) -> None:
    ended = erase("--tenant", "acme", "--yes")

    assert ended.code == 0
    assert "This was deleted of acme." in ended.out
    assert bench.visible() == 1


def test_a_tenant_of_whom_nothing_is_known_is_not_asked_about(erase: Erasing) -> None:
    ended = erase("--tenant", "nobody")

    assert ended.code == 0
    assert "Delete all of it?" not in ended.out


def test_what_could_not_be_deleted_is_an_exit_code_of_1(bench: SweepBench, erase: Erasing) -> None:
    bench.sqs.faults.raise_on("delete", ServiceUnavailable("SQS is down"))

    ended = erase("--tenant", "acme", "--yes")

    assert ended.code == 1
    assert "SQS is down" in ended.err
    assert erase("--tenant", "acme", "--yes").code == 0


def test_the_tenant_has_to_be_named(erase: Erasing) -> None:
    assert erase("--yes").code == 2
