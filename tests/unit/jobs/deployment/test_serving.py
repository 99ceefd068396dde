"""Each queue is served, and by nothing that would take another's messages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Priority
from headgate.jobs.core.topology import Topology
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.serving import consumed, serving
from headgate.jobs.errors import ConfigurationError


@pytest.fixture(scope="module")
def topology() -> Topology:
    app = App("shop")
    mail = app.queue("mail", priorities=[Priority.HIGH, Priority.LOW])
    mail.define("send", dict, priority=Priority.LOW)
    app.queue("books", priorities=[Priority.NORMAL], fifo=True).define("post", dict)
    return app.topology


def function(**options: Any) -> ConsumerGroup:
    return ConsumerGroup(**{"name": "function", "handler": "shop.function.handler", **options})


MAIL = WorkerGroup(name="mailers", queues=("mail",))


def test_every_queue_is_served_by_the_group_that_names_it(topology: Topology) -> None:
    books = function(queues=("books",))

    served = serving(topology, Deployment(workers=(MAIL,), consumers=(books,)))

    assert served == {
        topology.queue("mail", Priority.HIGH).name: (MAIL,),
        topology.queue("mail", Priority.LOW).name: (MAIL,),
        topology.queue("books", Priority.NORMAL).name: (books,),
    }


def test_two_worker_groups_may_share_a_queue(topology: Topology) -> None:
    spare = WorkerGroup(name="spare", spot=True)
    served = serving(topology, Deployment(workers=(WorkerGroup(), spare)))
    assert set(served.values()) == {(WorkerGroup(), spare)}


def test_without_workers_and_consumers_the_jobs_run_elsewhere(topology: Topology) -> None:
    assert set(serving(topology, Deployment(workers=())).values()) == {()}


def test_a_queue_without_workers_or_consumers_is_refused(topology: Topology) -> None:
    with pytest.raises(
        ConfigurationError, match=r"no worker group or consumer serves the queue shop-books-normal"
    ):
        serving(topology, Deployment(workers=(MAIL,)))


@pytest.mark.parametrize(
    "deployment",
    [
        Deployment(consumers=(function(queues=("books",)),)),
        Deployment(workers=(), consumers=(function(), function(name="other", queues=("books",)))),
    ],
    ids=["workers and a consumer", "two consumers"],
)
def test_a_function_shares_no_queue(topology: Topology, deployment: Deployment) -> None:
    with pytest.raises(ConfigurationError, match=r"books-normal\.fifo is served by .* and .*"):
        serving(topology, deployment)


# --- a function is fit for its queues ------------------------------------------------------------


def test_a_function_may_run_until_its_messages_show_again(topology: Topology) -> None:
    visibility = topology.queue("mail", Priority.HIGH).lane.visibility
    specs = consumed(topology, function(queues=("mail",), timeout=visibility))
    assert [spec.name for spec in specs] == ["shop-mail-high", "shop-mail-low"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"queues": ("mail",), "timeout": timedelta(seconds=61)},
            "consumer 'function' may run for 61 s, the queue shop-mail-high shows .* after 60 s",
        ),
        (
            {"queues": ("books",), "batch_size": 11, "max_batching_window": timedelta(seconds=1)},
            "from the FIFO queue shop-books-normal.fifo, Lambda takes batches of at most 10",
        ),
        (
            {"queues": ("books",), "max_batching_window": timedelta(seconds=1)},
            "without a batching window",
        ),
        (
            {"queues": ("mail",), "max_batching_window": timedelta(seconds=31)},
            "consumer 'function' gathers a batch for 31 s and may run for 30 s, .* after 60 s",
        ),
        (
            {
                "queues": ("mail",),
                "batch_size": 10_000,
                "max_batching_window": timedelta(seconds=1),
            },
            "a batch of 10,000 jobs of 1 s, 10 at once, takes 1000 s, and the function has 27 s",
        ),
        (
            {"queues": ("books",), "timeout": timedelta(seconds=5), "concurrency": 3},
            "a batch of 10 jobs of 1 s, 3 at once, takes 4 s, and the function has 2 s",
        ),
        (
            {"queues": ("mail",), "max_concurrency": 5, "reserved_concurrency": 9},
            "Reserve at least 10",
        ),
    ],
)
def test_what_lambda_would_refuse_or_throttle_is_refused_by_name(
    topology: Topology, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        consumed(topology, function(**options))


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"batch_size": 10_000}, "Lower batch_size=, raise concurrency= or timeout=, or set typ"),
        ({"max_batching_window": timedelta(seconds=31)}, "timeout= or max_batching_window=, or"),
    ],
)
def test_what_an_error_says_to_change_is_called_as_the_group_calls_it(
    topology: Topology, options: dict[str, Any], advice: str
) -> None:
    windowed = {"max_batching_window": timedelta(seconds=1)} | options
    with pytest.raises(ConfigurationError, match=advice):
        consumed(topology, function(queues=("mail",), **windowed))


def test_a_large_batch_that_fits_into_the_function_s_time_is_taken(topology: Topology) -> None:
    large = {
        "batch_size": 10_000,
        "max_batching_window": timedelta(seconds=1),
        "typical": timedelta(milliseconds=27),
    }
    consumed(topology, function(queues=("mail",), **large))
    with pytest.raises(ConfigurationError, match="takes 28 s"):
        consumed(
            topology,
            function(queues=("mail",), **large | {"typical": timedelta(milliseconds=28)}),
        )
