"""Settings of the wrong kind are refused where they are given, by their names."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import App, CrashLimit, Keep, Priority, Queue, Retry
from headgate.jobs.core.topology import Lane
from headgate.jobs.deployment.alarms.thresholds import Thresholds
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.durations import duration
from headgate.workers.configuration import ObservabilitySettings, WorkerSettings
from tests.support import odd_values


def consumer(**settings: Any) -> ConsumerGroup:
    whole: dict[str, Any] = {"name": "mail", "handler": "shop.handler"}
    return ConsumerGroup(**(whole | settings))


def lane(**settings: Any) -> Lane:
    whole: dict[str, Any] = {
        "visibility": timedelta(minutes=1),
        "start_within": timedelta(0),
        "share": 0.0,
    }
    return Lane(**(whole | settings))


def shop(**options: Any) -> App:
    return App("shop", **options)


def mail(**options: Any) -> Queue:
    return Queue("mail", **options)


def note(**options: Any) -> object:
    return App("shop").define("note", dict[str, int], isolation="process", **options)


MAKERS: dict[type, Callable[..., object]] = {
    WorkerSettings: WorkerSettings,
    ObservabilitySettings: ObservabilitySettings,
    WorkerGroup: WorkerGroup,
    ConsumerGroup: consumer,
    Deployment: Deployment,
    Thresholds: Thresholds,
    Lane: lane,
    CrashLimit: CrashLimit,
    Keep: Keep,
    Retry: Retry,
}
OPTIONS = [(make, field.name) for cls, make in MAKERS.items() for field in fields(cls)]

ODD: st.SearchStrategy[Any] = st.one_of(
    odd_values.ODD,
    st.timedeltas(),
    st.tuples(st.text(max_size=3) | st.integers()),
    st.just(object),
)


@given(option=st.sampled_from(OPTIONS), value=ODD)
def test_whatever_a_setting_is_given_it_is_taken_or_refused_by_its_name(
    option: tuple[Callable[..., object], str], value: Any
) -> None:
    make, name = option
    try:
        made = make(**{name: value})
    except ConfigurationError as error:
        said = str(error)
    else:
        taken = getattr(made, name)
        if isinstance(taken, timedelta):
            assert taken == duration(name, value)
        else:
            assert taken == tuple(value) if isinstance(value, list) else taken is value
        return
    assert name in said or name == "name"


@pytest.mark.parametrize(
    ("make", "name", "given"),
    [
        (WorkerSettings, "queues", ["jobs"]),
        (WorkerGroup, "queues", ["jobs"]),
        (WorkerGroup, "priorities", [Priority.HIGH]),
        (consumer, "queues", ["jobs"]),
        (Deployment, "workers", [WorkerGroup()]),
        (Deployment, "alerts_to", ["ada@example.com"]),
    ],
)
def test_a_list_is_taken_where_a_tuple_is_wanted(
    make: Callable[..., object], name: str, given: list[Any]
) -> None:
    assert getattr(make(**{name: given}), name) == tuple(given)


@pytest.mark.parametrize(
    ("make", "given", "fault"),
    [
        (WorkerSettings, {"drain": 22}, "drain must be a timedelta, got 22: write timedelta"),
        (WorkerSettings, {"drain": "22s"}, "drain must be a timedelta, got '22s'"),
        (WorkerSettings, {"concurrency": 2.5}, r"concurrency must be a whole number, got 2\.5"),
        (WorkerSettings, {"concurrency": True}, "concurrency must be a whole number, got True"),
        (WorkerSettings, {"queues": "jobs"}, "queues must be a tuple, of each a text or None"),
        (WorkerSettings, {"priorities": ("urgent",)}, "priorities must be a tuple, of each a Pri"),
        (ObservabilitySettings, {"port": "80"}, "port must be a whole number or None, got '80'"),
        (
            WorkerGroup,
            {"stop_timeout": "30s"},
            "stop_timeout=...\\) must be a timedelta or",
        ),
        (WorkerGroup, {"min_tasks": "1"}, "'workers': min_tasks must be a whole number, got '1'"),
        (consumer, {"timeout": "30s"}, "timeout=...\\) must be a timedelta or .* got '30s'"),
        (Deployment, {"network": "vpn"}, "network must be 'endpoints' or 'public', got 'vpn'"),
        (Deployment, {"workers": WorkerGroup()}, "workers must be a tuple, of each a WorkerGroup"),
        (Thresholds, {"oldest": "1h"}, "oldest=...\\) must be a timedelta or .* got '1h'"),
        (Deployment, {"alerts_to": ["oncall"]}, "alerts_to: not an e-mail address: 'oncall'"),
        (Thresholds, {"failed_percent": 100}, "failed_percent must be under 100, .* got 100"),
        (Thresholds, {"schedules_percent": 100.0}, "schedules_percent must be under 100"),
        (Thresholds, {"failed_percent": math.nan}, "failed_percent must be a number, got nan"),
        (lane, {"visibility": "1m"}, "a Lane: visibility must be a timedelta or .* got '1m'"),
        (
            CrashLimit,
            {"within": "5m"},
            "within=...\\) must be a timedelta or .* got '5m'",
        ),
        (Keep, {"last": "100"}, r"Keep\(last=\.\.\.\) must be a whole number or None, got '100'"),
        (shop, {"parking": timedelta(minutes=5)}, r"App\(parking=\.\.\.\) must be a Retry, got"),
        (shop, {"crash_limit": 3}, r"App\(crash_limit=\.\.\.\) must be a CrashLimit, got 3"),
        (
            shop,
            {"max_message_bytes": "1 MB"},
            r"App\(max_message_bytes=\.\.\.\) must be a whole number",
        ),
        (shop, {"long_delays": "no"}, r"App\(long_delays=\.\.\.\) must be True or False, got 'no'"),
        (shop, {"handlers": [5]}, r"App\(handlers=\.\.\.\) must be a tuple, of each a text"),
        (mail, {"retry": 5}, "the queue 'mail': retry must be a Retry, got 5"),
        (mail, {"fifo": "yes"}, "the queue 'mail': fifo must be True or False, got 'yes'"),
        (mail, {"lanes": 5}, "the queue 'mail': lanes must be a Mapping or None, got 5"),
        (mail, {"priorities": 5}, "the queue 'mail': priorities must be a list, got 5"),
        (note, {"schema": "1"}, "the type 'note': schema must be a whole number, got '1'"),
        (note, {"schema": True}, "the type 'note': schema must be a whole number, got True"),
        (note, {"memory_mib": "64"}, "'note': memory_mib must be a whole number or None, got '64'"),
        (note, {"memory_mib": 64.5}, "'note': memory_mib must be a whole number or None, got 64"),
        (mail, {"lanes": {Priority.LOW: 5}}, "the queue 'mail': lanes.*must be a Lane, got 5"),
    ],
)
def test_a_setting_of_the_wrong_kind_says_which_it_should_be(
    make: Callable[..., object], given: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        make(**given)
