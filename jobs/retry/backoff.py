"""Backoff: the delays between the attempts of a failing job.

A backoff is a pure description of a sequence of delays. Its randomness comes from a generator that
the caller seeds with the job's id (`job_rng`), which has two benefits:

- Jobs that fail together return at different times: thanks to the random bits of a UUIDv7, ids made
  in the same millisecond still seed unrelated generators.
- The whole sequence of one job can be computed again from its id, on any worker: the previous delay
  that decorrelated jitter needs is recomputed rather than stored.

The generator's n-th number belongs to the delay after the n-th attempt.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count, islice, repeat
from typing import Literal, Protocol, Self, TypeAlias

from headgate.jobs.errors import SettingsInvalid, did_you_mean
from headgate.jobs.retry.classification import LONGEST_WAIT_S
from headgate.jobs.values.durations import Duration, duration

_FlatJitter: TypeAlias = Literal["full", "equal"] | float | None

Jitter: TypeAlias = _FlatJitter | Literal["decorrelated"]
"""The randomisation of a delay; see `Backoff`."""

Bounds: TypeAlias = tuple[float, float]
"""The minimum and maximum of a delay, in seconds."""


def job_rng(job_id: str) -> random.Random:
    """Return a new generator whose numbers depend on the job's id alone.

    Python guarantees the same numbers of a seeded ``random()`` across processes and versions.
    https://docs.python.org/3/library/random.html#notes-on-reproducibility
    """
    return random.Random(job_id)  # noqa: S311  spreads load, not for security


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Backoff:
    """The delays between a job's attempts. Created by its class methods.

    Delays are given in seconds or as timedeltas.

    ``jitter`` spreads jobs that failed together, so that they don't return together:

    - ``"full"``: anywhere between 0 and the delay.
    - ``"equal"``: half the delay, and up to the other half on top.
    - ``"decorrelated"``: between ``base`` and three times the job's previous delay, at most
      ``cap``; ``factor`` is not used. Only for delays that grow from a ``base``.
    - a number in (0, 1]: plus or minus that share of the delay, ``0.1`` being 10 %. The range ends
      at ``cap``, rather than the result being cut to it, which would gather half the jobs there.
    - None: exactly the delay.

    The formulas are from AWS's "Exponential Backoff And Jitter" (Marc Brooker),
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/

    A delay may exceed the 12 hours that SQS can hide a message, up to a year: a one-time schedule
    then holds the job or, without one, the delay is cut to the rest of the 12 hours.

    Example:
        >>> Backoff.exponential(base=2, cap=120, jitter=None).delay_s(3, job_rng("any"))
        8.0
    """

    _strategy: _Strategy | _Adaptive

    @classmethod
    def exponential(
        cls,
        base: Duration = 1.0,
        factor: float = 2.0,
        cap: Duration = 60.0,
        jitter: Jitter = "full",
    ) -> Self:
        """Delays of ``base``, ``base * factor``, ``base * factor ** 2`` and so on, up to ``cap``.

        Raises:
            SettingsInvalid: ``base`` is below a millisecond, ``factor`` not in 1 to 1000, ``cap``
                below ``base`` or over a year, or there is no such jitter.
        """
        return cls(_strategy=_exponential(base, factor, cap, jitter))

    @classmethod
    def fixed(cls, delay: Duration, jitter: Jitter = None) -> Self:
        """The same ``delay`` after every attempt.

        Raises:
            SettingsInvalid: ``delay`` is negative or over a year, or the jitter doesn't fit.
        """
        return cls.steps(delay, jitter=jitter)

    @classmethod
    def steps(cls, *delays: Duration, jitter: Jitter = None) -> Self:
        """These delays one after the other; the last one repeats.

        Raises:
            SettingsInvalid: no delay is given, one is negative or over a year, or the jitter
                doesn't fit.
        """
        if not delays:
            raise SettingsInvalid("Backoff.steps needs a delay: write Backoff.steps(60, 300, 900)")
        if jitter == "decorrelated":
            raise SettingsInvalid(
                "decorrelated jitter makes its own delays, from a base to a cap: write "
                'Backoff.exponential(jitter="decorrelated"), or jitter="full" or "equal" here'
            )
        _check_jitter(jitter)
        checked = tuple(_seconds("delay", delay) for delay in delays)
        return cls(_strategy=_Steps(steps=checked, jitter=jitter))

    @classmethod
    def adaptive(
        cls,
        base: Duration = 1.0,
        factor: float = 2.0,
        cap: Duration = 300.0,
        backlog: int = 1000,
        jitter: Jitter = "full",
    ) -> Self:
        """Exponential delays, multiplied by ``1 + depth / backlog``, up to ``cap``.

        ``depth`` is the number of visible messages in the queue when the job fails. At ``backlog``
        of them a retry waits twice as long, so that retries make way for the work in the queue.

        Raises:
            SettingsInvalid: ``backlog`` is not in 1 to 1,000,000, or as for `exponential`.
        """
        check_count("backlog", backlog, most=1_000_000)
        growth = _exponential(base, factor, cap, jitter)
        return cls(_strategy=_Adaptive(growth=growth, backlog=backlog))

    @classmethod
    def custom(cls, fn: Callable[[int], Duration]) -> Self:
        """``fn(attempt)`` after the failure of that attempt, counted from 1.

        ``fn`` should depend on its argument alone: it is called for every attempt up to the one
        asked for. It adds any jitter itself. If it raises, or returns anything but a duration of
        at most a year, computing the delay raises SettingsInvalid, which the caller that settles
        the job has to handle: guessing a delay here would hide the mistake.

        Raises:
            SettingsInvalid: ``fn`` is not callable.
        """
        if not callable(fn):
            raise SettingsInvalid(
                f"Backoff.custom needs a function of the attempt, got {fn!r}: for a constant "
                "write Backoff.fixed(delay)"
            )
        return cls(_strategy=_Custom(fn=fn))

    @property
    def needs_backlog(self) -> bool:
        """True if the delays depend on the queue's depth, which then has to be looked up."""
        return isinstance(self._strategy, _Adaptive)

    def delays(self, rng: random.Random, backlog: int = 0) -> Iterator[float]:
        """Yield the seconds before attempt 2, 3, 4, and so on without end.

        Draws one random number per delay, or none without jitter.

        Args:
            rng: a fresh `job_rng`, so that the delays are this job's.
            backlog: the number of the queue's visible messages; 0 if unknown. Used by `adaptive`
                only.

        Raises:
            SettingsInvalid: a custom function failed; see `custom`.
        """
        if isinstance(self._strategy, _Adaptive):
            return self._strategy.under(backlog).delays(rng)
        return self._strategy.delays(rng)

    def delay_s(self, attempt: int, rng: random.Random, backlog: int = 0) -> float:
        """Return the seconds to wait after ``attempt``, counted from 1, failed.

        This is the element of `delays` at that position, with the same arguments and errors.

        Raises:
            ValueError: ``attempt`` is below 1.
        """
        return nth(self.delays(rng, backlog), attempt)

    def bounds(self) -> Iterator[Bounds]:
        """Yield the minimum and maximum seconds before attempt 2, 3, 4, and so on without end.

        For an adaptive backoff, the maximum is that of the deepest possible queue.

        Raises:
            SettingsInvalid: a custom function failed; see `custom`.
        """
        return self._strategy.bounds()

    def __repr__(self) -> str:
        return f"Backoff.{self._strategy}"


class _Strategy(Protocol):
    def delays(self, rng: random.Random, /) -> Iterator[float]: ...

    def bounds(self) -> Iterator[Bounds]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exponential:
    base: float
    factor: float
    cap: float
    jitter: Jitter

    def delays(self, rng: random.Random, /) -> Iterator[float]:
        if self.jitter == "decorrelated":
            return self._decorrelated(rng)
        return (_spread(delay, self.jitter, rng, cap=self.cap) for delay in self._growing())

    def bounds(self) -> Iterator[Bounds]:
        if self.jitter == "decorrelated":
            return self._decorrelated_bounds()
        return (_bounds(delay, self.jitter, cap=self.cap) for delay in self._growing())

    def _decorrelated_bounds(self) -> Iterator[Bounds]:
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
        return f"base={self.base}, factor={self.factor}, cap={self.cap}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Adaptive:
    growth: _Exponential
    backlog: int

    def under(self, depth: int) -> _Exponential:
        # A larger base stretches every delay alike, and leaves the cap unchanged.
        stretched = self.growth.base * (1 + max(0, depth) / self.backlog)
        return replace(self.growth, base=min(self.growth.cap, stretched))

    def bounds(self) -> Iterator[Bounds]:
        return ((least, self.growth.cap) for least, _ in self.growth.bounds())

    def __str__(self) -> str:
        growth = self.growth
        return f"adaptive({growth.arguments}, backlog={self.backlog}, jitter={growth.jitter!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    steps: tuple[float, ...]
    jitter: _FlatJitter

    def delays(self, rng: random.Random, /) -> Iterator[float]:
        steps = chain(self.steps, repeat(self.steps[-1]))
        return (_spread(delay, self.jitter, rng) for delay in steps)

    def bounds(self) -> Iterator[Bounds]:
        steps = chain(self.steps, repeat(self.steps[-1]))
        return (_bounds(delay, self.jitter) for delay in steps)

    def __str__(self) -> str:
        name = "fixed" if len(self.steps) == 1 else "steps"
        return f"{name}({', '.join(map(str, self.steps))}, jitter={self.jitter!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Custom:
    fn: Callable[[int], Duration]

    def delays(self, _rng: random.Random, /) -> Iterator[float]:
        return map(self._delay_s, count(1))

    def bounds(self) -> Iterator[Bounds]:
        return ((delay, delay) for delay in map(self._delay_s, count(1)))

    def _delay_s(self, attempt: int) -> float:
        try:
            delay = self.fn(attempt)
        except Exception as error:
            raise SettingsInvalid(
                f"the function of Backoff.custom failed for attempt {attempt}: {error!r}"
            ) from error
        what = f"the return value of the function of Backoff.custom for attempt {attempt}"
        return _seconds(what, delay)

    def __str__(self) -> str:
        return f"custom({getattr(self.fn, '__qualname__', self.fn)})"


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


def _bounds(delay: float, jitter: _FlatJitter, *, cap: float = LONGEST_WAIT_S) -> Bounds:
    match jitter:
        case None:
            return delay, delay
        case "full":
            return 0.0, delay
        case "equal":
            return delay / 2, delay
        case share:
            return delay * (1 - share), min(cap, delay * (1 + share))


def nth(numbers: Iterator[float], attempt: int) -> float:
    """Return the number that belongs to ``attempt``, counted from 1."""
    if attempt < 1:
        raise ValueError(f"attempts count from 1, got {attempt}")
    return next(islice(numbers, attempt - 1, None))


# --- checking arguments --------------------------------------------------------------------------


def _exponential(base: Duration, factor: float, cap: Duration, jitter: Jitter) -> _Exponential:
    _check_jitter(jitter)
    base_s = _seconds("base", base, least_s=0.001)
    return _Exponential(
        base=base_s,
        factor=_factor(factor),
        cap=_seconds("cap", cap, least_s=base_s),
        jitter=jitter,
    )


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


def check_count(name: str, value: object, most: int) -> None:
    """Raise SettingsInvalid unless ``value`` is a whole number from 1 to ``most``."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise SettingsInvalid(
            f"{name} must be a whole number between 1 and {most:,}, got {value!r}"
        )


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
