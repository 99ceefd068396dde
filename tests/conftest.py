"""What all tests share: the local servers, each started once a session."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Iterator
from pathlib import Path

import botocore.loaders
import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.support.servers import running_server

# No test has a wall-clock window, and Hypothesis brings two: how long an example may take, and how
# long it may take to make one. Both fail on a busy machine and say nothing of a guarantee.
settings.register_profile("headgate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headgate")
# That a mutant is noticed is enough: nobody reads the smallest example.
settings.register_profile(
    "mutants", settings.get_profile("headgate"), phases=[Phase.explicit, Phase.generate]
)


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: half of what the longest files do is wait for processes."""
    return (os.cpu_count() or 1) + 1


LONGEST_FIRST = ("conformance", "integration", "crash", "infra", "simulation", "docs")
"""Folders whose files take longest. Each file is run whole by one of the processes that share the
tests, so that its servers and stacks are made once; short files last leave none of them idle."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)


def pytest_configure() -> None:
    # Each session of botocore's would read the models of its services anew, which is most of what
    # a client costs, and thousands are made here.
    read = functools.cache(botocore.loaders.JSONFileLoader().load_file)
    botocore.loaders.JSONFileLoader.load_file = staticmethod(read)  # type: ignore[method-assign]  # read once
    # looptime asks for the current loop at every test. Before the first async test there is none,
    # and Python 3.11 would make one that nobody closes, unless it is told that there is none.
    asyncio.set_event_loop(None)


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """The endpoint of a moto server that all tests share."""
    with running_server("moto") as endpoint_url:
        yield endpoint_url


@pytest.fixture(scope="session")
def ministack() -> Iterator[str]:
    """The endpoint of a MiniStack server that all tests share."""
    with running_server("ministack") as endpoint_url:
        yield endpoint_url


@pytest.fixture(scope="session")
def elasticmq() -> Iterator[str]:
    """The endpoint of an ElasticMQ server that all tests share."""
    with running_server("elasticmq") as endpoint_url:
        yield endpoint_url


@pytest.fixture(scope="session")
def dynamodb() -> Iterator[str]:
    """The endpoint of DynamoDB Local; tests share it, so each names its own table."""
    with running_server("dynamodb") as endpoint_url:
        yield endpoint_url
