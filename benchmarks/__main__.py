"""``python -m benchmarks``: measure everything, print it, and keep it in `results/latest.json`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import report
from benchmarks.bench import Bench
from benchmarks.environments import PEERS, python_with
from benchmarks.report import PLOTS_REQUIREMENTS
from benchmarks.scale import FULL, QUICK
from benchmarks.stage import use_test_account
from tests.support.java_servers import ELASTICMQ, java_process


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small round: does it all work?")
    parser.add_argument("--only", nargs="*", metavar="PART", help="of: " + ", ".join(Bench.PARTS))
    options = parser.parse_args()
    # A shell's `timeout` sends SIGTERM: workers and servers must then end with us, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    started = time.monotonic()
    use_test_account()
    for requirements in [*sorted(PEERS.glob("*.txt")), PLOTS_REQUIREMENTS]:
        python_with(requirements)
    with java_process("elasticmq") as server, tempfile.TemporaryDirectory() as folder:
        scale, left_out = (QUICK, Bench.LONG) if options.quick else (FULL, ())
        bench = Bench(server.endpoint_url, Path(folder), scale)
        bench.run(options.only or [part for part in Bench.PARTS if part not in left_out])
    command = "make bench-quick" if options.quick else "make bench"
    results = bench.results.finish(
        command, server=f"ElasticMQ {ELASTICMQ.version}", took_s=time.monotonic() - started
    )
    report.save(results)
    report.show(results)


if __name__ == "__main__":
    main()
