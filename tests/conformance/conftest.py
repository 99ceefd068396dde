"""Runs the conformance suite over every server: `SERVERS` is the list of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from jobs.errors import TransportError
from tests.conformance.real_servers import ELASTICMQ, ELASTICMQ_BY_AIOBOTOCORE, MINISTACK, MOTO
from tests.conformance.servers import MEMORY, Candidate, Feature, Server

SERVERS: tuple[Candidate, ...] = (MEMORY, MOTO, MINISTACK, ELASTICMQ, ELASTICMQ_BY_AIOBOTOCORE)

# How a test can notice a gap. Anything else, such as a server that did not start, is no gap.
_SHOWN_BY = (AssertionError, TimeoutError, TransportError, pytest.fail.Exception)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(feature): fails on servers that lack the feature")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sqs" not in metafunc.fixturenames:
        return
    needed = [mark.args[0] for mark in metafunc.definition.iter_markers("needs")]
    metafunc.parametrize(
        "candidate",
        [
            pytest.param(
                candidate,
                id=candidate.name,
                marks=[mark for feature in needed for mark in _marks(candidate, feature)],
            )
            for candidate in SERVERS
        ],
    )


def _marks(candidate: Candidate, feature: Feature) -> Iterator[pytest.MarkDecorator]:
    if reason := candidate.gaps.get(feature):
        yield pytest.mark.xfail(strict=True, reason=reason, raises=_SHOWN_BY)
    if reason := candidate.unsteady.get(feature):
        yield pytest.mark.skip(reason=reason)


@pytest.fixture
async def sqs(candidate: Candidate, request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    """The server under test, reached for this test alone."""
    async with candidate.connect(request) as server:
        yield server
