"""Options that a submission sets for its own job, as messages carry them: plain values, no code."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, Self, assert_never

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headgate.jobs.core.retention import Keep
from headgate.jobs.errors import OptionInvalid
from headgate.jobs.retry.backoff import MOST_STEPS, Backoff, strategy_of
from headgate.jobs.retry.classification import LONGEST_WAIT_S
from headgate.jobs.retry.strategies import Adaptive, Custom, Exponential, Steps

LONGEST_KEPT = timedelta(days=36_525)
"""The longest retention of a single job's records, a century, far from the end of time."""

_Share = Annotated[float, Field(gt=0, le=1)]

_Delay = Annotated[float, Field(ge=0, le=LONGEST_WAIT_S)]

_Kept = Annotated[float, Field(le=LONGEST_KEPT.total_seconds())]


class ExponentialBackoff(BaseModel):
    """Delays that grow by a factor, up to a cap."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    kind: Literal["exponential"]
    base_s: Annotated[float, Field(ge=0.001, le=LONGEST_WAIT_S)] = Field(
        description="The delay after the first failed attempt, in seconds."
    )
    factor: Annotated[float, Field(ge=1, le=1000)] = 2.0
    cap_s: Annotated[float, Field(le=LONGEST_WAIT_S)] = Field(
        description="The longest delay, in seconds; not below base_s."
    )
    jitter: Literal["full", "equal", "decorrelated"] | _Share | None = Field(
        None, description="As of Backoff.exponential. Absent: none."
    )
    backlog: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None,
        description="The number of visible messages at which delays are twice as long. Absent: the "
        "queue's depth doesn't matter.",
    )

    @model_validator(mode="after")
    def _check_cap(self) -> Self:
        if self.cap_s < self.base_s:
            raise ValueError("cap_s is below base_s")
        return self

    def backoff(self) -> Backoff:
        """Return the backoff that it describes."""
        if self.backlog is None:
            return Backoff.exponential(self.base_s, self.factor, self.cap_s, self.jitter)
        return Backoff.adaptive(self.base_s, self.factor, self.cap_s, self.backlog, self.jitter)


class StepsBackoff(BaseModel):
    """Given delays, the last of which repeats."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    kind: Literal["steps"]
    delays_s: Annotated[tuple[_Delay, ...], Field(min_length=1, max_length=MOST_STEPS)] = Field(
        description="The seconds after the first failed attempt, the second, and so on."
    )
    jitter: Literal["full", "equal"] | _Share | None = Field(
        None, description="As of Backoff.steps. Absent: none."
    )

    def backoff(self) -> Backoff:
        """Return the backoff that it describes."""
        return Backoff.steps(*self.delays_s, jitter=self.jitter)


JobBackoff = Annotated[ExponentialBackoff | StepsBackoff, Field(discriminator="kind")]
"""The delays between the attempts of one job."""


def job_backoff(backoff: Backoff) -> ExponentialBackoff | StepsBackoff:
    """Return a backoff as messages carry it.

    Raises:
        OptionInvalid: it is a function, which no message can carry.
    """
    match strategy_of(backoff):
        case Exponential() as growth:
            return _exponential(growth)
        case Adaptive(growth=growth, backlog=backlog):
            return _exponential(growth, backlog)
        case Steps(steps=steps, jitter=jitter):
            return StepsBackoff(kind="steps", delays_s=steps, jitter=jitter)
        case Custom():
            raise OptionInvalid(
                f"{backoff!r} is a function, which no message can carry: write "
                "Backoff.steps(...) or Backoff.exponential(...), or declare it on the job's type"
            )
        case unknown:
            assert_never(unknown)


def _exponential(growth: Exponential, backlog: int | None = None) -> ExponentialBackoff:
    return ExponentialBackoff(
        kind="exponential",
        base_s=growth.base,
        factor=growth.factor,
        cap_s=growth.cap,
        jitter=growth.jitter,
        backlog=backlog,
    )


class JobKeep(BaseModel):
    """The retention of one job's records; each time that is absent is the type's."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    completed_s: Annotated[_Kept, Field(ge=0)] | None = Field(
        None,
        description="Seconds since its completion, result included; 0: nothing is kept of it if it "
        "simply completes.",
    )
    failed_s: Annotated[_Kept, Field(gt=0)] | None = Field(
        None, description="Seconds since each event of a job that doesn't simply complete."
    )

    def over(self, keep: Keep) -> Keep:
        """Return a type's retention with that of the job in its place."""
        completed, failed = self.completed_s, self.failed_s
        return Keep(
            completed=keep.completed if completed is None else completed,
            failed=keep.failed if failed is None else failed,
            last=keep.last,
            last_failed=keep.last_failed,
        )
