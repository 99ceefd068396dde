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
from inspect import iscoroutinefunction
from itertools import islice
from typing import Self

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.retry.backoff_context import BackoffContext
from headgate.jobs.retry.strategies import (
    Adaptive,
    Custom,
    Exponential,
    Jitter,
    Range,
    Steps,
    Strategy,
)
from headgate.jobs.values.durations import Duration
from headgate.jobs.values.light_dataclass import frozen_dataclass

MOST_STEPS = 1_000
"""The highest number of delays in `Backoff.steps`, as many as a policy has attempts."""

_ANY_FAILURE = BackoffContext(attempt=1)
"""A failure of which nothing is known."""


def job_rng(job_id: str) -> random.Random:
    """Return a new generator whose numbers depend on the job's id alone.

    Python guarantees the same numbers of a seeded ``random()`` across processes and versions.
    https://docs.python.org/3/library/random.html#notes-on-reproducibility
    """
    return random.Random(job_id)  # noqa: S311  spreads load, not for security


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
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

    _strategy: Strategy

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
        return cls(_strategy=Exponential.of(base, factor, cap, jitter))

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
            SettingsInvalid: no delay is given, or over 1,000 are; one is negative or over a year;
                or the jitter doesn't fit.
        """
        if not delays:
            raise SettingsInvalid("Backoff.steps needs a delay: write Backoff.steps(60, 300, 900)")
        if len(delays) > MOST_STEPS:
            raise SettingsInvalid(
                f"Backoff.steps takes at most {MOST_STEPS:,} delays, as many as there are "
                f"attempts, got {len(delays):,}"
            )
        if jitter == "decorrelated":
            raise SettingsInvalid(
                "decorrelated jitter makes its own delays, from a base to a cap: write "
                'Backoff.exponential(jitter="decorrelated"), or jitter="full" or "equal" here'
            )
        return cls(_strategy=Steps.of(delays, jitter))

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
        growth = Exponential.of(base, factor, cap, jitter)
        return cls(_strategy=Adaptive(growth=growth, backlog=backlog))

    @classmethod
    def custom(cls, fn: Callable[[BackoffContext], Duration]) -> Self:
        """``fn(failed)`` after each failure: of the attempt, its error, and the job.

        ``fn`` is called in the worker's event loop, maybe several times for one failure, so it has
        to be quick, and must not block. It adds any jitter itself. `BackoffContext` says where its
        ``error`` and ``payload`` are None: `headgate check` calls it so, once for each attempt.

        If it raises, or returns anything but a duration from 0 to a year, the job is retried after
        the default backoff, ``Backoff.exponential()``, and the event ``job.retry_scheduled`` has
        the fault, which is logged as a warning.

        Raises:
            SettingsInvalid: ``fn`` is not callable, or is asynchronous.

        Example:
            >>> backoff = Backoff.custom(lambda failed: 60 if failed.error is None else 5)
        """
        if not callable(fn):
            raise SettingsInvalid(
                f"Backoff.custom needs a function of the failure, got {fn!r}: for a constant "
                "write Backoff.fixed(delay)"
            )
        if iscoroutinefunction(fn):
            raise SettingsInvalid(
                f"Backoff.custom needs a synchronous function, and {fn.__qualname__} is async: "
                "write def, and have it wait for nothing"
            )
        return cls(_strategy=Custom(fn=fn))

    @property
    def needs_backlog(self) -> bool:
        """True if the delays depend on the queue's depth, which then has to be looked up."""
        return isinstance(self._strategy, Adaptive)

    @property
    def needs_context(self) -> bool:
        """True if the delays depend on the failure, which then has to be described."""
        return isinstance(self._strategy, Custom)

    def delays(
        self, rng: random.Random, backlog: int = 0, like: BackoffContext = _ANY_FAILURE
    ) -> Iterator[float]:
        """Yield the seconds before attempt 2, 3, 4, and so on without end.

        Draws one random number per delay, or none without jitter.

        Args:
            rng: a fresh `job_rng`, so that the delays are this job's.
            backlog: the number of the queue's visible messages; 0 if unknown. Used by `adaptive`
                only.
            like: the failures, but for their attempts. Used by `custom` only.

        Raises:
            SettingsInvalid: a custom function failed; see `custom`.
        """
        match self._strategy:
            case Adaptive() as adaptive:
                return adaptive.under(backlog).delays(rng)
            case Custom() as custom:
                return custom.delays(like)
            case strategy:
                return strategy.delays(rng)

    def delay_s(
        self,
        attempt: int,
        rng: random.Random,
        backlog: int = 0,
        failed: BackoffContext | None = None,
    ) -> float:
        """Return the seconds to wait after ``attempt``, counted from 1, failed.

        This is the element of `delays` at that position, with the same arguments and errors.

        Args:
            attempt: the number of the attempt.
            rng: as for `delays`.
            backlog: as for `delays`.
            failed: the failure, for `custom`, whose function is called once; None if nothing but
                the attempt is known.

        Raises:
            ValueError: ``attempt`` is below 1.
        """
        if isinstance(self._strategy, Custom) and attempt >= 1:
            return self._strategy.delay_s(failed or BackoffContext(attempt=attempt))
        return nth(self.delays(rng, backlog), attempt)

    def bounds(self, like: BackoffContext = _ANY_FAILURE) -> Iterator[Range]:
        """Yield the minimum and maximum seconds before attempt 2, 3, 4, and so on without end.

        For an adaptive backoff, the maximum is that of the deepest possible queue.

        Args:
            like: the failures, but for their attempts. Used by `custom` only.

        Raises:
            SettingsInvalid: a custom function failed; see `custom`.
        """
        if isinstance(self._strategy, Custom):
            return self._strategy.bounds(like)
        return self._strategy.bounds()

    def __repr__(self) -> str:
        return f"Backoff.{self._strategy}"


def strategy_of(backoff: Backoff) -> Strategy:
    """Return the sequence of delays that a backoff describes."""
    return backoff._strategy  # noqa: SLF001 - not among what users call


def nth(numbers: Iterator[float], attempt: int) -> float:
    """Return the number that belongs to ``attempt``, counted from 1."""
    if attempt < 1:
        raise ValueError(f"attempts count from 1, got {attempt}")
    return next(islice(numbers, attempt - 1, None))


def check_count(name: str, value: object, most: int) -> None:
    """Raise SettingsInvalid unless ``value`` is a whole number from 1 to ``most``."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise SettingsInvalid(
            f"{name} must be a whole number between 1 and {most:,}, got {value!r}"
        )
