"""The pace of Python's garbage collector in a worker's process.

By default the collector runs whenever there are 700 more objects than at its last run (2,000 from
Python 3.13 on): in a worker every few jobs, in vain, since what a job leaves behind is freed by its
reference counts. It took an eighth of a drain's CPU.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

ALLOCATIONS = 10_000
"""Net allocations between two runs of the collector. What waits for it meanwhile, such as the
tracebacks of failed jobs, is a few MB at most."""


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Let the collector run once in `ALLOCATIONS` until the block ends.

    An app that has it run still less often, or not at all, keeps what it has set.
    """
    before = gc.get_threshold()
    if 0 < before[0] < ALLOCATIONS:  # 0: it is switched off
        gc.set_threshold(ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
