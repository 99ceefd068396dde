"""Curves of the last hour of the queues, as CloudWatch has it, from the first look on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from headgate.jobs.client.overview.queue_metrics import Minutes, QueuePast
from headgate.jobs.client.overview.queues import QueueStatus
from headgate.ops.console.figures.charts import Curve, curve

_MINUTE = timedelta(minutes=1)


def past_curve(
    queues: Iterable[QueueStatus],
    minutes: Callable[[QueuePast], Minutes],
    over: Callable[[Iterable[float]], float],
) -> Curve | None:
    """Return the curve of a metric of several queues; None if fewer than two minutes are known.

    Args:
        queues: the queues.
        minutes: returns the metric of one queue.
        over: makes one number of those of all queues. A sum takes a minute of which nothing was
            told, between others, for one in which nothing happened.
    """
    told = [known for each in queues if (known := minutes(each.metrics.past))]
    times = _times(told, is_sum=over is sum)
    if len(times) < 2:
        return None
    values = [
        over(there) if (there := [each[at] for each in told if at in each]) else 0.0 for at in times
    ]
    return curve([at.timestamp() for at in times], values)


def _times(told: Sequence[Minutes], *, is_sum: bool) -> Sequence[datetime]:
    """Return the minutes to draw: without the last ones that some queues have not told yet."""
    known = sorted({at for each in told for at in each})
    if not is_sum or not known:
        return known
    last = min(max(each) for each in told if max(each) > known[-1] - 3 * _MINUTE)
    begin, length = known[0], int((last - known[0]) / _MINUTE)
    return [begin + number * _MINUTE for number in range(length + 1)]
