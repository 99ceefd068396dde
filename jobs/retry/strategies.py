"""The sequences of delays that a `jobs.retry.backoff.Backoff` describes, and their jitter."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain, count, repeat
from typing import Literal, Self, TypeAlias

from headgate.jobs.errors import SettingsInvalid, did_you_mean
from headgate.jobs.retry.backoff_context import BackoffContext
from headgate.jobs.retry.classification import LONGEST_WAIT_S
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.texts import kind_of, type_of

_FlatJitter: TypeAlias = Literal["full", "equal"] | float | None

Jitter: TypeAlias = _FlatJitter | Literal["decorrelated"]
"""The randomisation of a delay; see `jobs.retry.backoff.Backoff`."""

Range: TypeAlias = tuple[float, float]
"""The minimum and maximum of a delay, in seconds."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """Delays that grow by a factor, up to a cap."""

    base: float
    factor: float
    cap: float
    jitter: Jitter

    @classmethod
    def of(cls, base: Duration, factor: float, cap: Duration, jitter: Jitter) -> Self:
        """Check the arguments of `jobs.retry.backoff.Backoff.exponential`."""
        _check_jitter(jitter)
        base_s = _seconds("base", base, least_s=0.001)
        return cls(
            base=base_s,
            factor=_factor(factor),
            cap=_seconds("cap", cap, least_s=base_s),
            jitter=jitter,
        )

    def delays(self, rng: random.Random, /) -> Iterator[float]:
        if self.jitter == "decorrelated":
            return self._decorrelated(rng)
        return (_spread(delay, self.jitter, rng, cap=self.cap) for delay in self._growing())

    def bounds(self) -> Iterator[Range]:
        if self.jitter == "decorrelated":
            return self._decorrelated_bounds()
        return (_bounds(delay, self.jitter, cap=self.cap) for delay in self._growing())

    def _decorrelated_bounds(self) -> Iterator[Range]:
        most = self.base
        while True:
            most = min(self.cap, most * 3)
            yield min(self.base, most), most

    def _growing(self) -> Iterator[float]:
        # Multiplied step by step: `factor ** attempt` overflows where this just stays at the cap.
        delay = self.base
        while True:
            yield delay
            delay = min(self.cap, delay * self.factor)

    def _decorrelated(self, rng: random.Random) -> Iterator[float]:
        delay = self.base
        while True:
            delay = min(self.cap, rng.uniform(self.base, delay * 3))
            yield delay

    def __str__(self) -> str:
        return f"exponential({self.arguments}, jitter={self.jitter!r})"

    @property
    def arguments(self) -> str:
        """The arguments that it was made with, without its jitter."""
        return f"base={self.base}, factor={self.factor}, cap={self.cap}"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """Exponential delays that are stretched by the depth of the queue."""

    growth: Exponential
    backlog: int

    def under(self, depth: int) -> Exponential:
        """Return the delays at that depth of the queue."""
        # A larger base stretches every delay alike, and leaves the cap unchanged.
        stretched = self.growth.base * (1 + max(0, depth) / self.backlog)
        return replace(self.growth, base=min(self.growth.cap, stretched))

    def bounds(self) -> Iterator[Range]:
        return ((least, self.growth.cap) for least, _ in self.growth.bounds())

    def __str__(self) -> str:
        growth = self.growth
        return f"adaptive({growth.arguments}, backlog={self.backlog}, jitter={growth.jitter!r})"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Given delays, the last of which repeats."""

    steps: tuple[float, ...]
    jitter: _FlatJitter

    @classmethod
    def of(cls, delays: Sequence[Duration], jitter: _FlatJitter) -> Self:
        """Check the arguments of `jobs.retry.backoff.Backoff.steps`."""
        _check_jitter(jitter)
        return cls(steps=tuple(_seconds("delay", delay) for delay in delays), jitter=jitter)

    def delays(self, rng: random.Random, /) -> Iterator[float]:
        steps = chain(self.steps, repeat(self.steps[-1]))
        return (_spread(delay, self.jitter, rng) for delay in steps)

    def bounds(self) -> Iterator[Range]:
        steps = chain(self.steps, repeat(self.steps[-1]))
        return (_bounds(delay, self.jitter) for delay in steps)

    def __str__(self) -> str:
        name = "fixed" if len(self.steps) == 1 else "steps"
        return f"{name}({', '.join(map(str, self.steps))}, jitter={self.jitter!r})"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Custom:
    """The delays that a function of the user's returns."""

    fn: Callable[[BackoffContext], Duration]

    def delays(self, like: BackoffContext) -> Iterator[float]:
        """Yield the delays after failures that differ by their attempts only."""
        return (self.delay_s(replace(like, attempt=attempt)) for attempt in count(1))

    def bounds(self, like: BackoffContext) -> Iterator[Range]:
        return ((delay, delay) for delay in self.delays(like))

    def delay_s(self, failed: BackoffContext) -> float:
        """Return the seconds after that failure.

        Raises:
            SettingsInvalid: the function failed, or returned no such duration. Its text shows
                neither the error's message nor the value, which may quote the payload.
        """
        where = f"the function of Backoff.{self} for attempt {failed.attempt}"
        try:
            delay = self.fn(failed)
        except (Exception, SystemExit) as error:  # the user's code: it raises anything
            raise SettingsInvalid(f"{where} raised {type_of(error)}") from error
        try:
            return _seconds("the delay", delay)
        except SettingsInvalid as error:
            raise SettingsInvalid(
                f"{where} returned {_described(delay)}: it has to return seconds, or a timedelta, "
                f"from 0 to {LONGEST_WAIT_S:,.0f} s"
            ) from error

    def __str__(self) -> str:
        return f"custom({getattr(self.fn, '__qualname__', self.fn)})"


def _described(delay: object) -> str:
    """Describe what is no delay, without its value."""
    match delay:
        case bool():
            pass
        case timedelta():
            return "a timedelta out of range"
        case int() | float():
            return "NaN" if delay != delay else "a number out of range"
    return kind_of(delay)


Strategy: TypeAlias = Exponential | Adaptive | Steps | Custom
"""A sequence of delays."""


def _spread(
    delay: float, jitter: _FlatJitter, rng: random.Random, *, cap: float = LONGEST_WAIT_S
) -> float:
    match jitter:
        case None:
            return delay
        case "full":
            return rng.uniform(0, delay)
        case "equal":
            return delay / 2 + rng.uniform(0, delay / 2)
        case share:
            return rng.uniform(delay * (1 - share), min(cap, delay * (1 + share)))


def _bounds(delay: float, jitter: _FlatJitter, *, cap: float = LONGEST_WAIT_S) -> Range:
    match jitter:
        case None:
            return delay, delay
        case "full":
            return 0.0, delay
        case "equal":
            return delay / 2, delay
        case share:
            return delay * (1 - share), min(cap, delay * (1 + share))


# --- checking arguments --------------------------------------------------------------------------


def _seconds(name: str, value: object, least_s: float = 0) -> float:
    length_s = duration(name, value).total_seconds()
    if not least_s <= length_s <= LONGEST_WAIT_S:
        raise SettingsInvalid(
            f"{name} must lie between {least_s:,.10g} and {LONGEST_WAIT_S:,.10g} seconds, got "
            f"{length_s:,.10g}"
        )
    return length_s


def _factor(value: object) -> float:
    match value:
        case bool():  # an int in Python, but a mistake here
            pass
        case int() | float() if 1 <= value <= 1000:
            return float(value)
    raise SettingsInvalid(f"factor must be a number between 1 and 1,000, got {value!r}")


def _check_jitter(jitter: object) -> None:
    match jitter:
        case None | "full" | "equal" | "decorrelated":
            return
        case str():
            hint = did_you_mean(jitter, ("full", "equal", "decorrelated"))
            raise SettingsInvalid(f"there is no jitter {jitter!r}: {hint}")
        case bool():
            pass
        case int() | float() if 0 < jitter <= 1:
            return
    raise SettingsInvalid(
        f"jitter must be a share above 0 and up to 1 (0.1 is 10 %), a name, or None, got {jitter!r}"
    )
