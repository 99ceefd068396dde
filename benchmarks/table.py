"""The rows of the report, each with its targets."""

from __future__ import annotations

from benchmarks.cost_rows import cost_rows
from benchmarks.row import Curve, Row
from benchmarks.targets import (
    Target,
    above_bare,
    again_beyond_running,
    exactly_one,
    none_ever,
    of_bare,
    ours,
    times_best_peer,
    worst,
)


def _variant_rows(key: str, how: str) -> tuple[Row, Row]:
    return (
        Row(key=key, title=f"no-op jobs/s of one worker {how}, no latency added"),
        Row(
            key=f"{key}-cpu",
            title="the same, seconds of the worker's CPU for 1,000 jobs",
            digits=3,
        ),
    )


def _pickup_rows(latency_ms: int, with_latency: str) -> tuple[Row, ...]:
    p50, p99 = f"pickup-{latency_ms}-p50", f"pickup-{latency_ms}-p99"
    critical_p50, critical_p99 = f"critical-{latency_ms}-p50", f"critical-{latency_ms}-p99"
    return (
        Row(
            key=p50,
            title=f"ms from sending to running, idle worker on four queues{with_latency}, p50",
            targets=(
                Target(text="≤ 0.3 above the bare loop", measure=above_bare(p50), at_most=0.3),
            ),
            digits=1,
            plotted=True,
        ),
        Row(
            key=p99,
            title="the same, p99",
            targets=(Target(text="≤ 1 above the bare loop", measure=above_bare(p99), at_most=1),),
            digits=1,
        ),
        Row(
            key=critical_p50,
            title="ms from sending to running, critical job while 10,000 low ones of 1 s wait"
            f"{with_latency}, p50",
        ),
        Row(
            key=critical_p99,
            title="the same, p99",
            targets=(Target(text="< 100", measure=ours(critical_p99), at_most=100),),
        ),
    )


ROWS = (
    Row(
        key="requests-0",
        title="SQS requests a no-op job: `submit_many` and one worker",
        targets=(Target(text="≤ 0.33", measure=ours("requests-0"), at_most=0.33),),
        digits=3,
        plotted=True,
    ),
    Row(
        key="requests-single-0",
        title="the same, single concurrent `submit`s on `AsyncClient`",
        targets=(Target(text="≤ 0.45", measure=ours("requests-single-0"), at_most=0.45),),
        digits=3,
    ),
    Row(
        key="requests-10",
        title="SQS requests a no-op job with 10 ms of latency: `submit_many` and one worker",
        targets=(Target(text="≤ 0.33", measure=ours("requests-10"), at_most=0.33),),
        digits=3,
    ),
    Row(
        key="requests-single-10",
        title="the same, single concurrent `submit`s on `AsyncClient`",
        targets=(Target(text="≤ 0.45", measure=ours("requests-single-10"), at_most=0.45),),
        digits=3,
    ),
    Row(
        key="drain-0",
        title="no-op jobs/s of one worker, no latency added",
        targets=(
            Target(text="≥ 1.6 times the bare loop", measure=of_bare("drain-0"), at_least=1.6),
            Target(
                text="≥ 5 times the fastest peer", measure=times_best_peer("drain-0"), at_least=5
            ),
        ),
        plotted=True,
    ),
    Row(
        key="drain-10",
        title="no-op jobs/s of one worker, 10 ms of latency",
        targets=(
            Target(
                text="≥ 6 times the fastest peer", measure=times_best_peer("drain-10"), at_least=6
            ),
        ),
        plotted=True,
    ),
    Row(
        key="drain-50",
        title="no-op jobs/s of one worker, 50 ms of latency",
        targets=(
            Target(text="≥ 1,800", measure=ours("drain-50"), at_least=1_800),
            Target(
                text="≥ 6 times the fastest peer", measure=times_best_peer("drain-50"), at_least=6
            ),
        ),
    ),
    Row(
        key="records",
        title="no-op jobs/s of one worker with full records, no latency added",
        targets=(Target(text="not below the bare loop", measure=of_bare("records"), at_least=1),),
    ),
    *_variant_rows("tls", "over TLS"),
    *_variant_rows("processes-1", "with `--processes 1`"),
    *_variant_rows("processes-2", "with `--processes 2`"),
    *_variant_rows("payload-1", "with payloads of 1 KB"),
    *_variant_rows("payload-20", "with payloads of 20 KB"),
    *_variant_rows("payload-200", "with payloads of 200 KB"),
    Row(
        key="cpu",
        title="seconds of the worker's CPU for 1,000 no-op jobs",
        targets=(Target(text="≤ 0.065", measure=ours("cpu"), at_most=0.065),),
        digits=2,
        plotted=True,
    ),
    *cost_rows(),
    Row(
        key="slots-0",
        title="jobs of 50 ms a second at 50 slots (1,000 possible), no latency added",
        targets=(Target(text="≥ 960", measure=ours("slots-0"), at_least=960),),
        plotted=True,
    ),
    Row(
        key="slots-10",
        title="the same, 10 ms of latency",
        targets=(Target(text="≥ 950", measure=ours("slots-10"), at_least=950),),
        plotted=True,
    ),
    Row(key="slots-50", title="the same, 50 ms of latency"),
    Row(key="wide-10", title="jobs of 50 ms a second at 10 slots (200 possible)"),
    Row(key="wide-200", title="jobs of 50 ms a second at 200 slots (4,000 possible)"),
    *_pickup_rows(0, ""),
    *_pickup_rows(10, ", 10 ms of latency"),
    Row(
        key="sustained",
        title="jobs/s of one worker under a steady 1,000 a second of all priorities, 60 s",
        targets=(Target(text="≥ 990", measure=ours("sustained"), at_least=990),),
    ),
    Row(
        key="sustained-lost",
        title="jobs lost of those 60,000",
        targets=(Target(text="none", measure=worst("sustained-lost"), at_most=0),),
    ),
    Row(
        key="sustained-twice",
        title="jobs run twice of those",
        targets=(Target(text="none", measure=worst("sustained-twice"), at_most=0),),
    ),
    Row(
        key="sustained-critical-p50",
        title="ms from sending to running of its 2,000 critical jobs, p50",
        digits=1,
    ),
    Row(
        key="sustained-critical-p99",
        title="the same, p99",
        targets=(
            Target(
                text="< 100, the server's own time included",
                measure=ours("sustained-critical-p99"),
                at_most=100,
            ),
        ),
        digits=1,
    ),
    Row(key="sustained-memory", title="MB of its memory at the end (PSS)"),
    Row(
        key="idle",
        title="requests a minute of an idle worker on four queues",
        targets=(Target(text="≤ 12", measure=ours("idle"), at_most=12),),
        plotted=True,
    ),
    Row(
        key="kill-lost",
        title="jobs lost by one `kill -9` in the midst of a drain (100 kills; 5 of each other)",
        targets=none_ever("kill-lost"),
    ),
    Row(key="kill-running", title="jobs that were running at that moment, and had to begin again"),
    Row(
        key="kill-again",
        title="jobs that ran again beyond those: they had ended, but were not deleted yet",
        targets=(
            Target(
                text="at no kill more than were running",
                measure=again_beyond_running,
                at_most=0,
            ),
        ),
    ),
    Row(
        key="stop-lost",
        title="jobs lost by one SIGTERM in the midst of a drain (4 each)",
        targets=none_ever("stop-lost"),
    ),
    Row(key="stop-twice", title="jobs that ran twice", targets=none_ever("stop-twice")),
    Row(
        key="stop-hidden",
        title="messages still hidden when the process had ended",
        targets=none_ever("stop-hidden"),
    ),
    Row(key="stop-seconds", title="seconds from SIGTERM to its end, 30 at most", digits=1),
    Row(
        key="long-starts",
        title="starts of one job of 10 s at 3 s of visibility, within 35 s",
        targets=exactly_one("long-starts", "start"),
    ),
    Row(
        key="long-ends",
        title="its completions",
        targets=exactly_one("long-ends", "completion"),
    ),
    Row(
        key="long-left",
        title="messages of it that are left",
        targets=none_ever("long-left"),
    ),
    Row(
        key="soak-memory",
        title="MB of memory in the last tenth of 100,000 jobs, the others' of 10,000 (RSS)",
        targets=(Target(text="< 100", measure=ours("soak-memory"), at_most=100),),
    ),
    Row(
        key="soak-growth",
        title="that as a multiple of the first tenth's",
        targets=(Target(text="flat: ≤ 1.1", measure=ours("soak-growth"), at_most=1.1),),
        digits=2,
    ),
    Row(
        key="soak-left",
        title="tasks and sockets that are left when the worker has stopped",
        targets=none_ever("soak-left"),
    ),
    Row(
        key="memory",
        title="MB of memory at 50 slots (PSS)",
        targets=(Target(text="< 100", measure=ours("memory"), at_most=100),),
        plotted=True,
    ),
    Row(
        key="import-jobs",
        title="ms of `from headgate import App`",
        targets=(Target(text="< 100", measure=ours("import-jobs"), at_most=100),),
    ),
    Row(
        key="import-bridge",
        title="ms of `import headgate.lambdas.bridge`",
        targets=(Target(text="< 100", measure=ours("import-bridge"), at_most=100),),
    ),
    Row(
        key="growth-limits",
        title="µs of CPU for a no-op job by its type's limit (SQS in memory)",
        plotted=True,
    ),
    Row(key="proxy", title="ms of one small request of boto3's", digits=2),
)

CURVES = (
    Curve(key="soak", title="MB of memory (RSS) over the jobs that had run", x="jobs", y="MB"),
    Curve(
        key="growth-queues",
        title="CPU of a no-op job by the number of queues (SQS in memory)",
        x="queues",
        y="µs",
    ),
    Curve(
        key="growth-tenants",
        title="CPU of a no-op job by the number of tenants, at most two jobs of each at once",
        x="tenants",
        y="µs",
        is_logarithmic=True,
    ),
)
"""The figures drawn as lines."""
