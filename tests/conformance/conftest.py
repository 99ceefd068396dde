"""Runs the conformance suites over every server: `SERVERS`, `TABLES` and `STORES` are the lists."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import pytest

from headgate.jobs.errors import TransportError
from tests.conformance.real_servers import (
    ELASTICMQ,
    ELASTICMQ_BY_AIOBOTOCORE,
    ELASTICMQ_BY_BOTO3,
    ELASTICMQ_FOR_THREADS,
    MINISTACK,
    MOTO,
)
from tests.conformance.schedulers import (
    SCHEDULERS,
    SchedulerCandidate,
    SchedulerFeature,
    SchedulerUnderTest,
)
from tests.conformance.servers import MEMORY, Candidate, Feature, Server
from tests.conformance.stores import STORES, StoreCandidate, StoreUnderTest
from tests.conformance.tables import TABLES, TableCandidate, TableFeature, TableUnderTest

SERVERS: tuple[Candidate, ...] = (
    MEMORY,
    MOTO,
    MINISTACK,
    ELASTICMQ,
    ELASTICMQ_BY_AIOBOTOCORE,
    ELASTICMQ_FOR_THREADS,
    ELASTICMQ_BY_BOTO3,
)

_AnyCandidate = Candidate | TableCandidate | SchedulerCandidate | StoreCandidate

# The errors by which a test can expose a gap. Any other, such as a server that did not start, is no
# gap.
_SHOWN_BY = (AssertionError, TimeoutError, TransportError, pytest.fail.Exception)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(feature): fails on servers that lack the feature")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    needed = [mark.args[0] for mark in metafunc.definition.iter_markers("needs")]
    for fixture, candidates in (
        ("sqs", SERVERS),
        ("at", TABLES),
        ("bucket", STORES),
        ("on", SCHEDULERS),
    ):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(
                "candidate", [_parameter(candidate, needed) for candidate in candidates]
            )


def _parameter(
    candidate: _AnyCandidate, needed: Sequence[Feature | TableFeature | SchedulerFeature]
) -> Any:  # pytest keeps the class private
    marks = [mark for feature in needed for mark in _marks(candidate, feature)]
    return pytest.param(candidate, id=candidate.name, marks=marks)


def _marks(
    candidate: _AnyCandidate, feature: Feature | TableFeature | SchedulerFeature
) -> Iterator[pytest.MarkDecorator]:
    if isinstance(candidate, StoreCandidate):
        return  # stores have no gaps
    gaps: Mapping[Any, str] = candidate.gaps
    unsteady: Mapping[Any, str] = candidate.unsteady
    if reason := gaps.get(feature):
        yield pytest.mark.xfail(strict=True, reason=reason, raises=_SHOWN_BY)
    if reason := unsteady.get(feature):
        yield pytest.mark.skip(reason=reason)


@pytest.fixture
async def sqs(candidate: Candidate, request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    """Connect to the server under test, for this test alone."""
    async with candidate.connect(request) as server:
        yield server


@pytest.fixture
async def at(
    candidate: TableCandidate, request: pytest.FixtureRequest
) -> AsyncIterator[TableUnderTest]:
    """Connect to the table under test, for this test alone."""
    async with candidate.connect(request) as table:
        yield table


@pytest.fixture
async def on(
    candidate: SchedulerCandidate, request: pytest.FixtureRequest
) -> AsyncIterator[SchedulerUnderTest]:
    """Connect to the scheduler under test, for this test alone."""
    async with candidate.connect(request) as scheduler:
        yield scheduler


@pytest.fixture
async def bucket(
    candidate: StoreCandidate, request: pytest.FixtureRequest
) -> AsyncIterator[StoreUnderTest]:
    """Connect to the object store under test, for this test alone."""
    async with candidate.connect(request) as store:
        yield store
