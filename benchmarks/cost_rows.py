"""The rows of what Headgate costs a process by itself, and of what virtual time counts.

Seconds of CPU are those of the machine that was measured on. Beside them stands what they come to
where a bare loop takes 0.10 s for 1,000 jobs and boto3 0.54 ms to send one message, as ratios to
these two in the same run.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contestants import BARE_BOTO3
from benchmarks.row import Row
from benchmarks.targets import Target, of_bare, ours, times_row

QUEUES = (1, 40)
STEADY_RATES = (50, 200)
GATHERS: dict[str, tuple[float | None, float]] = {
    "default": (None, 0),
    "second": (1, 0),
    "second-both": (1, 1),
}
"""The values of `Lane.gather` and of `AsyncClient`'s."""

_GATHERS_IN_WORDS = {
    "default": "default",
    "second": "`gather` of a second",
    "second-both": "`gather` of a second in the client as well",
}

COUNTED_DRAINS = {
    "drain": 0.65,
    "drain, full records": 1.6,
    "drain, once": 3.5,
    "drain, bundles": 0.5,
}
"""Pieces of `benchmarks.counted`, with the most that each may take of a bare loop's instructions:
what it may take of the CPU."""

_ONE, _MANY = (f"cost-queues-{queues}" for queues in QUEUES)


def cost_rows() -> Iterator[Row]:
    """Yield the rows of the parts of `benchmarks.costs`."""
    yield from _drains()
    yield from _queues()
    yield from _submissions()
    yield from _steady()
    yield from _instructions()


def _drains() -> Iterator[Row]:
    yield Row(
        key="cost-drain",
        title="ms of CPU for a no-op job, on a server that answers at once; both with uvloop",
        targets=(
            _at_most("cost-drain", 0.065),
            _beside_bare("cost-drain", 0.65),
        ),
        digits=3,
    )
    yield Row(
        key="cost-records",
        title="the same, full records",
        targets=(_at_most("cost-records", 0.16), _beside_bare("cost-records", 1.6)),
        digits=3,
    )
    yield Row(
        key="cost-once",
        title="the same, `once=True`",
        targets=(_at_most("cost-once", 0.35), _beside_bare("cost-once", 3.5)),
        digits=3,
    )
    yield Row(key="cost-long", title="the same, jobs of 1 KB", digits=3)
    yield Row(
        key="cost-bundled",
        title="the same, jobs of 1 KB in bundles",
        targets=(
            _at_most("cost-bundled", 0.05),
            _beside_bare("cost-bundled", 0.5),
        ),
        digits=3,
    )
    yield Row(
        key="bundled",
        title="SQS requests a job of 1 KB in bundles, in virtual time",
        targets=(Target(text="≤ 0.03", measure=ours("bundled"), at_most=0.03),),
        digits=4,
    )


def _queues() -> Iterator[Row]:
    yield Row(key=_ONE, title="ms of CPU for a no-op job from one queue (SQS in memory)", digits=3)
    yield Row(
        key=_MANY,
        title=f"the same, from {QUEUES[1]} queues, all busy",
        targets=(
            _at_most(_MANY, 0.15),
            Target(text="≤ 1.3 of one queue's", measure=times_row(_MANY, _ONE), at_most=1.3),
        ),
        digits=3,
    )


def _submissions() -> Iterator[Row]:
    yield Row(
        key="cost-submit",
        title="ms of CPU of one `Client.submit`, beside boto3's `send_message`",
        targets=(
            _at_most("cost-submit", 0.2),
            Target(
                text="≤ 0.37 of boto3's",
                measure=of_bare("cost-submit", bare=BARE_BOTO3),
                at_most=0.37,
            ),
        ),
        digits=3,
    )
    yield Row(
        key="cost-submit-many",
        title="the same for a job of `Client.submit_many`, beside `send_message_batch` of ten",
        targets=(
            Target(
                text="≤ 1 / 1.3 of boto3's",
                measure=of_bare("cost-submit-many", bare=BARE_BOTO3),
                at_most=1 / 1.3,
            ),
        ),
        digits=3,
    )


def _steady() -> Iterator[Row]:
    bounds = {
        (50, "default"): 1.6,
        (200, "default"): 1.3,
        (50, "second"): 1.2,
        (200, "second"): 1.2,
        (50, "second-both"): 1.2,
        (200, "second-both"): 1.2,
    }
    for rate in STEADY_RATES:
        for name in GATHERS:
            key, bound = f"steady-{rate}-{name}", bounds[rate, name]
            yield Row(
                key=key,
                title=f"SQS requests a job at a steady {rate} a second, {_GATHERS_IN_WORDS[name]},"
                " in virtual time",
                targets=(Target(text=f"≤ {bound}", measure=ours(key), at_most=bound),),
                digits=2,
            )
            late = f"{key}-p99"
            soon = Target(text="< 100", measure=ours(late), at_most=100)
            yield Row(
                key=late,
                title="ms of pickup there, p99",
                targets=(soon,) if name == "default" else (),
            )


def _instructions() -> Iterator[Row]:
    """Yield the rows of what varies by a percent or two, whatever else the machine does."""
    yield Row(key="instructions-import", title="1,000 instructions of `from headgate import App`")
    yield Row(key="instructions-submit", title="1,000 instructions of one `Client.submit`")
    for name, bound in COUNTED_DRAINS.items():
        row = f"instructions-{name}"
        yield Row(
            key=row,
            title=f"1,000 instructions of a no-op job: {name}",
            targets=(_beside_bare(row, bound, bare_row="instructions-drain"),),
        )


def _at_most(row: str, bound: float) -> Target:
    return Target(text=f"≤ {bound:g}", measure=ours(row), at_most=bound)


def _beside_bare(row: str, bound: float, *, bare_row: str = "cost-drain") -> Target:
    return Target(
        text=f"≤ {bound:g} of the bare loop's",
        measure=of_bare(row, bare_row=bare_row),
        at_most=bound,
    )
