"""Fixtures shared by all tests: the local servers, each started once a session."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import botocore.session
import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.support.servers import running_server

# No test has a wall-clock limit, but Hypothesis brings two: on running an example, and on
# generating one. Both fail on a busy machine and say nothing about a guarantee. The examples are
# the same each time, so that a run says something about the code and nothing about its luck.
settings.register_profile(
    "headgate",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
settings.load_profile("headgate")
# Examples never tried before, and many of them: `make properties`.
settings.register_profile(
    "random",
    settings.get_profile("headgate"),
    derandomize=False,
    max_examples=int(os.environ.get("EXAMPLES", "1000")),
)
# It is enough that a mutant is noticed: the smallest example is of no interest.
settings.register_profile(
    "mutants",
    settings.get_profile("headgate"),
    derandomize=False,  # it has a seed of its own
    phases=[Phase.explicit, Phase.generate],
)


def pytest_xdist_auto_num_workers() -> int:
    """Return two more than the number of cores: the longest files spend half their time waiting."""
    return (os.cpu_count() or 1) + 2


LONGEST_FIRST = (
    *("conformance", "integration", "crash", "infra", "simulation", "docs"),
    *("unit/workers", "unit/ops"),
)
"""Folders whose files take longest.

Each file is run as a whole by one of the test processes, so that its servers and stacks are started
once; with short files last, no process stays idle.
"""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without Python's garbage collector, which would find nothing to free."""
    gc.disable()
    try:
        return (yield)
    finally:
        # All to the oldest generation, without a look at them.
        gc.freeze()
        gc.unfreeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _place(item.path))


@functools.cache
def _place(path: Path) -> int:
    """Return how many folders come before a file; all of them before the examples' own tests."""
    here = Path(__file__).parent
    within = path.relative_to(here) if path.is_relative_to(here) else path
    places = (at for at, each in enumerate(LONGEST_FIRST) if within.is_relative_to(each))
    return next(places, len(LONGEST_FIRST))


def pytest_configure() -> None:
    # CDK's built-in validation of templates takes four seconds in each Node process, and more at
    # each synthesis. It only warns, which no test reads; cfn-lint and cdk-nag are tests.
    os.environ.setdefault("CDK_VALIDATION", "false")
    # As in a worker's process: by default the collector takes a twelfth of the tests' CPU, in vain.
    gc.set_threshold(10_000, *gc.get_threshold()[1:])
    # Each session of botocore would read the models of its services anew, and list the folders of
    # all of AWS's: most of a client's cost, and thousands of clients are made here.
    botocore.session.create_loader = functools.cache(botocore.session.create_loader)
    # looptime asks for the current loop at every test. Before the first async test there is none,
    # and Python 3.11 would create one that is never closed, unless it is told that there is none.
    asyncio.set_event_loop(None)
    # From Python 3.12 on a loop that closes gives its threads five minutes to end. In virtual time
    # they are over at once, so there is no bound here; a test that hangs has its own.
    if sys.version_info >= (3, 12):
        asyncio.constants.THREAD_JOIN_TIMEOUT = None  # type: ignore[assignment]  # None is no bound


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """Yield the endpoint of a moto server that all tests share."""
    with running_server("moto") as endpoint_url:
        yield endpoint_url


@pytest.fixture(scope="session")
def ministack() -> Iterator[str]:
    """Yield the endpoint of a MiniStack server that all tests share."""
    with running_server("ministack") as endpoint_url:
        yield endpoint_url


@pytest.fixture(scope="session")
def elasticmq() -> Iterator[str]:
    """Yield the endpoint of an ElasticMQ server that all tests share."""
    with running_server("elasticmq") as endpoint_url:
        yield endpoint_url


@pytest.fixture(scope="session")
def dynamodb() -> Iterator[str]:
    """Yield the endpoint of DynamoDB Local; tests share it, so each names its own table."""
    with running_server("dynamodb") as endpoint_url:
        yield endpoint_url
