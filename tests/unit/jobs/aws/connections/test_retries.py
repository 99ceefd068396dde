"""Retries of AWS calls: which failures are retried, and after which delay."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.aws.connections.retries import pause_s, tried
from headgate.jobs.core.immediate import immediate


def refusal(code: str, status: int = 400) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]  # the rest of it says nothing
        "SendMessageBatch",
    )


PASSING: list[Exception] = [
    refusal("503", 503),
    refusal("InternalError", 500),
    EndpointConnectionError(endpoint_url="https://sqs"),
    ConnectionResetError("reset"),
]
LASTING = [refusal("AccessDenied", 403), refusal("InvalidParameterValue")]


class Service:
    """Fails that many times, and then answers."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error = error
        self.left = times
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        self.left -= 1
        if self.left >= 0:
            raise self.error
        return "answer"


def slept() -> tuple[list[float], Callable[[float], Awaitable[None]]]:
    pauses: list[float] = []
    return pauses, immediate(pauses.append)


@given(st.sampled_from(PASSING), st.integers(1, 12), st.integers())
def test_a_first_failure_pauses_for_50_ms_at_most_and_others_for_longer(
    error: Exception, tries: int, seed: int
) -> None:
    wait_s = pause_s(error, tries, random.Random(seed))  # noqa: S311 - seeded, to try them all
    assert wait_s is not None
    assert 0 <= wait_s <= min(20, 0.05 * 2 ** (tries - 1))


def test_throttling_pauses_for_longer() -> None:
    pauses = [
        pause_s(refusal("ThrottlingException"), 1, random.Random(seed))  # noqa: S311 - seeded
        for seed in range(50)
    ]
    assert 0.8 < max(pause or 0 for pause in pauses) <= 1


@pytest.mark.parametrize("error", LASTING, ids=str)
async def test_permanent_errors_are_not_retried(error: Exception) -> None:
    service, (pauses, pause) = Service(error, 1), slept()
    with pytest.raises(ClientError):
        await tried(service, attempts=3, pause=pause, rng=random.Random(0))  # noqa: S311 - seeded
    assert (service.calls, pauses) == (1, [])


async def test_a_call_is_made_three_times_at_most_and_the_last_failure_raised() -> None:
    service, (pauses, pause) = Service(PASSING[0], 3), slept()
    with pytest.raises(ClientError):
        await tried(service, attempts=3, pause=pause, rng=random.Random(0))  # noqa: S311 - seeded
    assert (service.calls, len(pauses)) == (3, 2)


async def test_a_call_that_fails_each_second_time_succeeds_however_often_it_is_made() -> None:
    pauses, pause = slept()
    for _ in range(1_000):
        service = Service(PASSING[0], 1)
        rng = random.Random(0)  # noqa: S311 - spreads pauses
        assert await tried(service, attempts=3, pause=pause, rng=rng) == "answer"
    assert len(pauses) == 1_000
