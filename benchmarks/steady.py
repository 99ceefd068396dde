"""``python -m benchmarks.steady``: requests and pickup of jobs that come one by one.

A real worker in virtual time, on SQS in memory, which takes 5 ms each way for a request. Jobs come
at random moments; a send of its own is counted for each, as from independent submitters, unless
their client gathers as well.
"""

from __future__ import annotations

import argparse
import asyncio

import looptime

from headgate import Priority
from headgate.jobs.values.durations import Duration
from tests.support.steady import Steady, steady

RATES = (2, 10, 50, 200, 1000)
"""Jobs a second."""

GATHERS: dict[str, tuple[Duration | None, Duration]] = {
    "0": (0, 0),
    "default": (None, 0),
    "1 s": (1, 0),
    "1 s, the client too": (1, 1),
}
"""The lane's `gather` and the client's."""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=2_000)
    jobs = parser.parse_args().jobs
    print("| jobs a second | gather | requests a job | pickup p50, ms | p99, ms |")
    print("|---|---|---|---|---|")
    for rate in RATES:
        for name, gather in GATHERS.items():
            print(_row(rate, name, measured(rate, jobs, *gather)), flush=True)


def measured(rate: float, jobs: int, lane: Duration | None, client: Duration) -> Steady:
    """Return the figures of that many jobs, at that rate a second, with the `gather` of both."""
    loop = looptime.new_event_loop(start=0, noop_cycles=0)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(steady(rate, jobs=jobs, lane_gather=lane, client_gather=client))


def _row(rate: float, name: str, load: Steady) -> str:
    median, late = (1000 * load.pickup_s(Priority.NORMAL, part) for part in (0.5, 0.99))
    return f"| {rate:g} | {name} | {load.requests:.2f} | {median:.0f} | {late:.0f} |"


if __name__ == "__main__":
    main()
