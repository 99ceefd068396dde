"""Lives with random features, work and faults, in which no promise is broken.

Only a few; `make simulate-faults` runs thousands, and reports whether they cover enough.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.drawing import draw
from tests.simulation.plan import described
from tests.simulation.runner import kind_of, lived, of_plan
from tests.simulation.shrink import shrunk

SEEDS, CHUNK = 40, 10
"""The number of lives, and the number per test, so that they spread over the cores."""

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_nothing_that_is_promised_is_broken_in_any_life(first: int) -> None:
    failed = [each for seed in range(first, first + CHUNK) if (each := lived(seed)).violations]
    if not failed:
        return
    told = [f"{each.command}\n    " + "\n    ".join(each.violations) for each in failed]
    worst = failed[0]
    wanted = kind_of(worst.violations[0])
    small = shrunk(
        draw(worst.seed),
        lambda plan: wanted in map(kind_of, of_plan(plan).violations),
        at_most=150,
    )
    told.append(f"the smallest plan of {worst.seed} that fails so:\n{described(small)}")
    pytest.fail("\n".join(told), pytrace=False)


@pytest.mark.parametrize("seed", [33, 67])
def test_a_seed_gives_the_same_life_in_every_process(seed: int) -> None:
    digests = {_digest_elsewhere(seed, hash_seed) for hash_seed in ("0", "1")}
    assert digests == {lived(seed).digest}


def _digest_elsewhere(seed: int, hash_seed: str) -> str:
    told = subprocess.run(
        [sys.executable, "-m", "tests.simulation", str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    return told.stdout.strip().rpartition("digest ")[2]
