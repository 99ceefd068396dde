"""A step of `headgate verify`, what came of it, and the helpers that steps share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal, Unpack

from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.errors import HeadgateError
from headgate.jobs.handles.handle import AsyncJobHandle
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.verify.steps.site import VerifySite

PATIENCE = timedelta(minutes=2)
"""The longest wait for a job that can start at once."""

_LOOK_EVERY_S = 2.0

StepState = Literal["passed", "failed", "not tried"]


class SiteNeed(StrEnum):
    """Something that not every site has."""

    ALARMS = "alarms"
    FUNCTION = "function"
    ROLES = "roles"


class UnexpectedSight(HeadgateError):
    """A step saw something else than it expects."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class VerifyStep:
    """One thing to try."""

    name: str
    expected: str
    run: Callable[[VerifySite], Awaitable[str]]
    """Tries it, and returns what it has seen; raises `UnexpectedSight` if that isn't expected."""
    within: timedelta = PATIENCE + timedelta(minutes=1)
    """The time after which it is given up."""
    at_least: timedelta = timedelta(0)
    """The time that it takes in any case; it isn't begun if less is left."""
    needs: SiteNeed | None = None


@light_dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The outcome of a step."""

    name: str
    expected: str
    state: StepState
    seen: str
    """The facts that it has seen; of one that was not tried, the reason."""
    took_s: float = 0.0
    requests: int = 0
    """Requests to SQS of this process, and of the workers in it."""


def seen(what: str, *, as_expected: bool) -> str:
    """Return what was seen.

    Raises:
        UnexpectedSight: it is not as expected.
    """
    if not as_expected:
        raise UnexpectedSight(what)
    return what


async def submit(
    site: VerifySite, job_type: str, payload: Any = None, **options: Unpack[SubmitOptions]
) -> AsyncJobHandle[Any]:
    """Submit a job of one of the app's types."""
    return await site.client.submit(site.app.find_type(job_type), payload, **options)


async def eventually(look: Callable[[], Awaitable[bool]]) -> None:
    """Look every two seconds until it is so; the step's own bound ends it."""
    while not await look():  # noqa: ASYNC110 - AWS sends no events
        await asyncio.sleep(_LOOK_EVERY_S)
