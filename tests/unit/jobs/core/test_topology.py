from __future__ import annotations

from datetime import timedelta
from typing import get_args

import pytest

from headgate import App, Lane, Priority
from headgate.jobs.core.naming import physical_name
from headgate.jobs.core.topology import DEFAULT_LANES, PriorityName, QueueSpec, Topology
from headgate.jobs.errors import ConfigurationError, UnknownQueue


@pytest.fixture
def topology() -> Topology:
    app = App("ecommerce", stage="prod", priorities="all")
    app.define("send-email", dict)
    app.queue("payments", priorities=[Priority.CRITICAL, Priority.HIGH])
    return app.topology


def test_priorities_run_from_the_most_to_the_least_urgent() -> None:
    assert list(Priority) == ["critical", "high", "normal", "low"]
    assert [priority.rank for priority in Priority] == [0, 1, 2, 3]


def test_every_priority_may_be_declared_by_its_name() -> None:
    assert get_args(PriorityName) == tuple(Priority)
    app = App("ecommerce")
    mail = app.queue("mail", priorities=["high", "low"])
    assert mail.define("send-email", dict, priority="low").priority is Priority.LOW
    assert list(mail.lanes) == [Priority.HIGH, Priority.LOW]


def test_the_default_lanes_are_those_that_the_design_promises() -> None:
    lanes = {
        str(priority): (
            lane.visibility.total_seconds(),
            lane.start_within.total_seconds(),
            lane.share,
        )
        for priority, lane in DEFAULT_LANES.items()
    }
    assert lanes == {
        "critical": (30, 0, 0.0),
        "high": (60, 60, 0.20),
        "normal": (300, 300, 0.10),
        "low": (600, 900, 0.05),
    }


def test_physical_names_are_app_stage_group_and_priority(topology: Topology) -> None:
    spec = topology.queue("jobs", Priority.HIGH)
    assert spec.name == "ecommerce-prod-jobs-high"
    assert spec.dlq_name == "ecommerce-prod-jobs-high-dlq"
    assert topology.quarantine_name == "ecommerce-prod-quarantine"
    assert physical_name("a", None, "b", fifo=True) == "a-b.fifo"


def test_every_queue_has_a_name_and_a_dead_letter_queue_of_its_own(topology: Topology) -> None:
    names = [name for spec in topology.queues for name in (spec.name, spec.dlq_name)]
    names.append(topology.quarantine_name)
    assert len(set(names)) == len(names) == 13


def test_dead_letters_are_kept_longer_than_messages(topology: Topology) -> None:
    assert all(spec.dlq_retention > spec.retention for spec in topology.queues)


def test_the_heartbeat_follows_the_visibility_timeout() -> None:
    lane = Lane(visibility=timedelta(seconds=90), start_within=timedelta(0), share=0)
    queue = App("shop").queue("slow", priorities=[Priority.LOW], lanes={Priority.LOW: lane})
    app = App("shop2")
    app.include(queue)
    [spec] = app.topology.queues
    assert (spec.visibility_s, spec.heartbeat_s) == (90, 30)


@pytest.mark.parametrize(
    ("numbers", "fault"),
    [
        ({"visibility": timedelta(0)}, "visibility must lie between 1 s and 12 h"),
        ({"visibility": timedelta(hours=13)}, "visibility must lie between 1 s and 12 h"),
        ({"start_within": timedelta(seconds=-1)}, "start_within must not be negative"),
        ({"share": 1.0}, r"share must lie in \[0, 1\)"),
        ({"share": -0.1}, r"share must lie in \[0, 1\)"),
    ],
)
def test_a_lane_s_number_out_of_range_is_refused(numbers: dict[str, object], fault: str) -> None:
    fitting = {"visibility": timedelta(minutes=1), "start_within": timedelta(0), "share": 0.1}
    with pytest.raises(ConfigurationError, match=fault):
        Lane(**{**fitting, **numbers})  # type: ignore[arg-type]  # values of several types


def test_an_unknown_queue_is_answered_with_the_nearest(topology: Topology) -> None:
    with pytest.raises(UnknownQueue, match="no queue 'payment': did you mean 'payments'"):
        topology.queue("payment", Priority.HIGH)
    with pytest.raises(UnknownQueue, match="no queue 'payment': did you mean 'payments'"):
        topology.select(["jobs", "payment"])


def test_a_priority_that_a_queue_lacks_is_answered_with_those_it_has(topology: Topology) -> None:
    with pytest.raises(UnknownQueue, match=r"'payments' has no priority 'low': .* critical, high"):
        topology.queue("payments", Priority.LOW)


def test_the_only_priority_of_a_group_need_not_be_named(topology: Topology) -> None:
    app = App("shop")
    app.queue("mail", priorities=[Priority.LOW])
    assert app.topology.queue("mail") == app.topology.queue("mail", "low")
    with pytest.raises(
        UnknownQueue, match="'payments' has the priorities critical, high: name one"
    ):
        topology.queue("payments")


def test_selecting_groups_keeps_all_of_their_queues_and_no_others(topology: Topology) -> None:
    def groups(queues: tuple[QueueSpec, ...]) -> set[str]:
        return {spec.group for spec in queues}

    assert groups(topology.select(None)) == {"jobs", "payments"}
    assert groups(topology.select(["payments"])) == {"payments"}
    assert len(topology.select(["jobs"])) == 4
