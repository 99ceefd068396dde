"""Freshness: a job starts only if its message lasts for as long as it may run.

SQS hides a message for 12 hours since its receive, however often that is extended, and keeps it no
longer than its queue's retention. What has been held here for long, as behind others of its FIFO
group, is given back when its turn has come, and starts with its next receipt: otherwise another
worker would have it while it runs. What has been delivered before and has little left of its
retention goes on in a new message, since a worker that died with the old one would take it along.

A FIFO message that SQS would not show again starts with what is left.

Nothing goes back again and again. A new receipt is long enough for any timeout; of the ten messages
of a receive one is done before the others go back. A new message has all of its retention left, and
one that is received for the first time starts whatever is left: it has waited in a queue whose end
is days away.
"""

from __future__ import annotations

from headgate.jobs.core.clock import Clock
from headgate.jobs.definitions.options.job_options import LONGEST_TIMEOUT
from headgate.workers.held import Hold

_SETTLES_S = 300.0
"""Time after its timeout in which a job cleans up, and its message is settled; of the longest
timeouts less is left, see `LONGEST_TIMEOUT`."""

_LONGEST_S = LONGEST_TIMEOUT.total_seconds()


def is_stale(hold: Hold, clock: Clock) -> bool:
    """Return True if a message has to be given back although its job could start now."""
    delivery = hold.delivery
    hides_s, is_new = delivery.hides_s(clock.monotonic()), delivery.message.receive_count == 1
    if is_new and hides_s >= _LONGEST_S:
        return False  # as nearly all
    if (job := hold.run.job) is None or hold.run.foregone is not None or hold.outlived:
        return False
    now, renewable = clock.now(), job.attempt.renewable
    if not (renewable or delivery.may_go_back(now)):
        return False
    if hides_s < min(job.timeout_s + _SETTLES_S, _LONGEST_S):
        return True
    if is_new or not job.attempt.known:
        return False  # attempts that are not known would not be counted in a new message
    return not delivery.lasts(job.kept_free_s, now)
