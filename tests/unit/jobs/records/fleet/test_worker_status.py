"""The item that a worker's status is kept in."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headgate import App
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.topology import Priority
from headgate.jobs.records.fleet.worker_status import (
    MOST_LIMITS,
    MOST_RUNNING,
    MOST_TENANTS,
    SILENT_AFTER_S,
    LimitState,
    WorkerState,
    read_status,
    status_item,
)
from tests.support.statuses import JOB, NOW, STATUS
from tests.unit.ops.test_cost_sizes import bytes_of


def test_what_is_written_is_read() -> None:
    assert read_status(status_item(STATUS)) == STATUS


def test_a_status_names_only_the_first_of_many_jobs_limits_pauses_and_tenants() -> None:
    crowded = replace(
        STATUS,
        busy=1_000,
        running=[JOB] * 1_000,
        limits={f"rate:type:{n:0100}": LimitState.HOLDING for n in range(1_000)},
        pauses=[f"the tenant {n:0120}" for n in range(1_000)],
        tenants=[replace(STATUS.tenants[0], tenant=f"{n:0128}") for n in range(1_000)],
    )
    item = status_item(crowded)
    read = read_status(item)
    assert read is not None
    assert (read.busy, len(read.running)) == (1_000, MOST_RUNNING)
    assert len(read.limits) == len(read.pauses) == MOST_LIMITS
    assert len(read.tenants) == MOST_TENANTS
    assert bytes_of(item) < 15_000


def test_a_worker_is_silent_after_three_beats_and_its_status_expires_later() -> None:
    lately = NOW + timedelta(seconds=SILENT_AFTER_S)
    assert not STATUS.is_silent(lately)
    assert STATUS.is_silent(lately + timedelta(seconds=1))
    assert status_item(STATUS).expires_at == NOW + timedelta(hours=1)


def test_a_draining_worker_polls_nothing() -> None:
    app = App("shop")
    app.queue("mail", priorities=[Priority.HIGH])
    queue = app.topology.queue("mail", Priority.HIGH)
    assert STATUS.polls_queue(queue)
    assert not replace(STATUS, polls={"mail": [Priority.LOW]}).polls_queue(queue)
    assert not replace(STATUS, state=WorkerState.DRAINING).polls_queue(queue)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((field, None) for field in status_item(STATUS).data),
        ("at", "yesterday"),
        ("state", "asleep"),
        ("slots", 0),
        ("busy", -1),
        ("waiting", True),
        ("app_version", "x" * 101),
        ("polls", {"mail": ["urgent"]}),
        ("polls", {"mail": "high"}),
        ("polls", {"mail": ["high"] * 5}),
        ("limits", {"breaker:app": "ajar"}),
        ("limits", {f"{n}": "open" for n in range(21)}),
        ("pauses", ["x"] * 21),
        ("pauses", [7]),
        ("tenants", ["org-1"]),
        ("tenants", [{**status_item(STATUS).data["tenants"][0], "held": 0}]),
        ("tenants", [{**status_item(STATUS).data["tenants"][0], "tenant": "x" * 129}]),
        ("tenants", status_item(STATUS).data["tenants"] * 21),
        ("failed", [7]),
        ("failed", {"mail": 0}),
        ("failed", {"x" * 129: 1}),
        ("failed", {f"{n}": 1 for n in range(21)}),
        ("running", ["send-email"]),
        ("running", [{"id": "x"}]),
        ("running", [{**status_item(STATUS).data["running"][0], "for_s": -1}]),
        ("running", [{**status_item(STATUS).data["running"][0], "for_s": 1e12}]),
        ("running", status_item(STATUS).data["running"] * 21),
    ],
)
def test_a_strange_item_is_no_status(field: str, value: Any) -> None:
    item = status_item(STATUS)
    strange = Item(pk=item.pk, sk=item.sk, data={**item.data, field: value})
    assert read_status(strange) is None


def test_a_worker_of_the_version_before_is_read_without_its_tenants_and_failures() -> None:
    item = status_item(STATUS)
    known = {name: item.data[name] for name in item.data if name not in ("tenants", "failed")}
    found = read_status(Item(pk=item.pk, sk=item.sk, data=known))
    assert found == replace(STATUS, tenants=[], failed={})
