"""Many lives, on one process per core, with their coverage and failures."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.simulation.coverage import features_of
from tests.simulation.drawing import draw
from tests.simulation.life import live
from tests.simulation.plan import Plan

_CHUNK = 16
"""Number of seeds that a process gets at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """The outcome of one seed."""

    seed: int
    violations: tuple[str, ...]
    digest: str
    cpu_s: float
    counts: Counter[str] = field(default_factory=Counter)
    """Number of occurrences of each kind of event."""
    features: frozenset[str] = frozenset()
    """The features that took effect in it."""

    @property
    def command(self) -> str:
        """The command that repeats it."""
        return f"python -m tests.simulation {self.seed}"


def lived(seed: int) -> Lived:
    """Simulate the life of a seed."""
    return of_plan(draw(seed))


def of_plan(plan: Plan) -> Lived:
    """Simulate a plan's life. An error of the simulation itself counts as a failure, too."""
    started = time.process_time()
    try:
        ledger = live(plan)
    except Exception as error:  # noqa: BLE001 - told as what became of this seed
        violation = f"simulation-failed: {type(error).__name__}: {error}"
        return Lived(
            seed=plan.seed,
            violations=(violation,),
            digest="",
            cpu_s=time.process_time() - started,
        )
    return Lived(
        seed=plan.seed,
        violations=tuple(ledger.violations),
        digest=ledger.digest,
        cpu_s=time.process_time() - started,
        counts=ledger.counts,
        features=frozenset(features_of(plan, ledger)),
    )


def all_lived(seeds: Sequence[int], *, processes: int) -> Iterator[Lived]:
    """Simulate the lives of many seeds; yield them in order."""
    if processes == 1:
        _collect_between()
        yield from map(_lived_of_many, seeds)
        return
    with ProcessPoolExecutor(processes, initializer=_collect_between) as pool:
        yield from pool.map(_lived_of_many, seeds, chunksize=_CHUNK)


def _collect_between() -> None:
    """Collect garbage after each life, and never within one, which saves a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.disable()


def _lived_of_many(seed: int) -> Lived:
    try:
        return lived(seed)
    finally:
        gc.collect()


def kind_of(violation: str) -> str:
    """Return the kind of promise that was broken."""
    return violation.partition(":")[0]
