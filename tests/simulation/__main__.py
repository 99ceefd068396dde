"""``python -m tests.simulation``: simulate lives by seed; print coverage and failures.

python -m tests.simulation --seeds 10000           many, on all cores
python -m tests.simulation 4711                    one, with its plan and its violations
python -m tests.simulation 4711 --log              with a log of all events
python -m tests.simulation 4711 --shrink           with the smallest plan that still fails
python -m tests.simulation 4711 --without job:3    without parts of its plan
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict

from tests.simulation.coverage import Coverage
from tests.simulation.drawing import draw
from tests.simulation.life import live
from tests.simulation.plan import Plan, described
from tests.simulation.runner import Lived, all_lived, kind_of, of_plan
from tests.simulation.shrink import shrunk

_SHOWN = 8
"""Number of failing seeds listed per kind."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("seed", type=int, nargs="?", help="the one life to live")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many lives to live")
    parser.add_argument("--first", type=int, default=0, help="the first of their seeds")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--log", action="store_true", help="print all that happened")
    parser.add_argument("--shrink", nargs="?", const="", metavar="KIND", help="of violation")
    parser.add_argument("--without", nargs="+", default=[], metavar="PART")
    options = parser.parse_args()
    if options.seed is None:
        seeds = range(options.first, options.first + options.seeds)
        sys.exit(0 if _many(seeds, options.processes) else 1)
    plan = draw(options.seed).without(options.without)
    if options.shrink is not None:
        plan = _shrunk(plan, options.shrink)
    sys.exit(0 if _one(plan, log=options.log) else 1)


def _one(plan: Plan, *, log: bool) -> bool:
    print(described(plan))
    ledger = live(plan)
    if log:
        print("\n".join(ledger.lines))
    print("\n".join(ledger.violations) or "nothing was violated")
    print(f"digest {ledger.digest}")
    return not ledger.violations


def _shrunk(plan: Plan, kind: str) -> Plan:
    if not (violations := of_plan(plan).violations):
        return plan
    wanted = kind or kind_of(violations[0])
    return shrunk(plan, lambda smaller: wanted in map(kind_of, of_plan(smaller).violations))


def _many(seeds: range, processes: int) -> bool:
    started, coverage, cpu_s = time.monotonic(), Coverage(), 0.0
    failed: dict[str, list[Lived]] = defaultdict(list)
    failures = 0
    for each in all_lived(seeds, processes=processes):
        coverage.add(each.features)
        cpu_s += each.cpu_s
        if each.violations:
            failures += 1
            print(f"{each.command}    {each.violations[0][:200]}", flush=True)
        for kind in dict.fromkeys(map(kind_of, each.violations)):
            failed[kind].append(each)
    took_s = time.monotonic() - started
    print("\n".join(coverage.lines()))
    rate = len(seeds) / took_s * 60
    print(
        f"{len(seeds):,} seeds in {took_s:.0f} s: {rate:,.0f} a minute on {processes} processes, "
        f"{cpu_s / len(seeds):.3f} s of CPU each; {failures:,} failed"
    )
    if missing := coverage.missing():
        print(f"no life has shown {', '.join(sorted(missing))}: the simulation proves too little")
    for kind, those in sorted(failed.items(), key=lambda entry: -len(entry[1])):
        _tell(kind, those)
    if failed:
        first = min((those[0] for those in failed.values()), key=lambda each: each.seed)
        print(f"\nrepeat one with: {first.command}; its smallest plan that fails so:")
        print(described(_shrunk(draw(first.seed), kind_of(first.violations[0]))))
    return not failed and not missing


def _tell(kind: str, those: list[Lived]) -> None:
    seeds = ", ".join(str(each.seed) for each in those[:_SHOWN])
    example = next(each for each in those[0].violations if kind_of(each) == kind)
    print(f"{kind}: {len(those)} seeds, such as {seeds}\n    {those[0].seed}: {example[:400]}")


if __name__ == "__main__":
    main()
