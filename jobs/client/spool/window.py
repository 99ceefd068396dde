"""The state of sending a claim's jobs in several requests at once.

Pure; `jobs.client.spool.sending` makes the requests.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from headgate.jobs.client.spool.policy import Answer, SpoolClaim, SpooledJob
from headgate.jobs.core.batching import TRIES, EntryRejected, Lanes
from headgate.jobs.core.ports.transport import EntryFailure
from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.errors import TransportError
from headgate.jobs.messages.outgoing import lane_of

PARALLEL = 16
"""Maximum number of requests in doubt: under way, or answered and not yet settled in the file. If
the process is killed, their jobs are sent twice. Ten jobs each at 8 ms make 20,000 a second, well
above what a process has CPU for."""

_MOST_CLAIMED = 1_000
_MOST_SUSPECTS = 16 * MAX_BATCH

Reply = Sequence[EntryFailure] | TransportError
"""A request's results, or the error that it raised."""


class ClaimWindow:
    """A claim on its way to SQS.

    A request that SQS refuses as a whole for its content (a character, an attribute) is split in
    halves until the message at fault is alone. That message counts as refused once SQS has taken
    another one; as long as it has taken none, the fault is the queue's.

    An entry that SQS failed to take among others is sent again behind the ready jobs, a few times.

    Args:
        claim: the claim whose jobs are sent.
        parallel: maximum number of requests in doubt.
    """

    def __init__(self, claim: SpoolClaim, *, parallel: int = PARALLEL) -> None:
        self._lanes = Lanes[SpooledJob](lambda job: lane_of(job.message))
        for job in claim.jobs:
            self._lanes.add(job)
        self._free = parallel
        self._halves: deque[list[SpooledJob]] = deque()
        self._suspects: list[tuple[SpooledJob, TransportError]] = []
        self._taken = False
        self._failures = Counter[str]()
        """Number of times that SQS failed to take a job from a request, by job."""
        self._stopped = False
        self._answered = 0
        self._sent: list[SpooledJob] = []
        self._refused: list[tuple[SpooledJob, str]] = []
        self._error: TransportError | None = None

    @property
    def blames_all(self) -> bool:
        """True if every message that was sent was refused as a request of its own."""
        return bool(self._suspects) and not self._taken

    def next_batch(self) -> list[SpooledJob]:
        """Return the next batch to send; empty if none may be sent until there is an answer."""
        if self._stopped or not self._free:
            return []
        batch = self._halves.popleft() if self._halves else self._lanes.take(_size)
        self._free -= bool(batch)
        return batch

    def answered(self, batch: Sequence[SpooledJob], reply: Reply) -> None:
        """Note the reply to a batch."""
        self._answered += 1
        if isinstance(reply, TransportError):
            self._read_error(batch, reply)
            return
        failed = {failure.index: failure for failure in reply}
        self._taken = self._taken or len(failed) < len(batch)
        for index, job in enumerate(batch):
            self._read_entry(job, failed.get(index))

    def news(self) -> Answer:
        """Return the ends to settle in the file that have not been returned before."""
        if self._taken:
            self._refused += [(job, str(error)) for job, error in self._suspects]
            self._suspects.clear()
        news = Answer(sent=tuple(self._sent), refused=tuple(self._refused), error=self._error)
        self._sent, self._refused, self._error = [], [], None
        self._free += self._answered
        self._answered = 0
        return news

    def end(self) -> Answer:
        """Return the last ends to settle, once sending is over."""
        if self.blames_all:
            self._stop(self._suspects[0][1])
        return self.news()

    def _read_entry(self, job: SpooledJob, failure: EntryFailure | None) -> None:
        if failure is None:
            self._lanes.passed(job)
            self._sent.append(job)
        elif failure.sender_fault:
            self._refused.append((job, f"{failure.code}: {failure.message}"))
        elif self._goes_again(job):
            self._lanes.again(job)
        else:
            self._stop(EntryRejected(failure))

    def _goes_again(self, job: SpooledJob) -> bool:
        """Return True if a job that SQS failed to take, while it took others, is sent again."""
        self._failures[job.id] += 1
        return self._taken and self._failures[job.id] < TRIES

    def _read_error(self, batch: Sequence[SpooledJob], error: TransportError) -> None:
        if not _may_be_a_messages_fault(error):
            self._stop(error)
        elif len(batch) == 1:
            self._suspects.append((batch[0], error))
        else:
            middle = len(batch) // 2
            self._halves += [list(batch[:middle]), list(batch[middle:])]

    def _stop(self, error: TransportError) -> None:
        self._stopped = True
        self._error = self._error or error


class Widths:
    """The number of a queue's jobs to claim next: ten, doubled each time all goes well.

    So a lasting outage costs one request at a time. While everything is refused, up to
    ``_MOST_SUSPECTS`` jobs are tried to find one that isn't.
    """

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def of(self, queue: str) -> int:
        """Return the number of jobs to claim from this queue."""
        return self._next.get(queue, MAX_BATCH)

    def passed(self, queue: str, window: ClaimWindow, error: TransportError | None) -> None:
        """Note that a claim of that queue is over."""
        wider = 2 * self.of(queue)
        if window.blames_all:
            self._next[queue] = min(wider, _MOST_SUSPECTS)
        elif error is None:
            self._next[queue] = min(wider, _MOST_CLAIMED)
        else:
            self._next.pop(queue, None)


def unexpected(queue: str, error: BaseException) -> TransportError:
    """Return the error that replaces an unexpected one, whose text might quote a payload."""
    return TransportError(f"sending to {queue!r} raised {type(error).__name__}")


def _size(job: SpooledJob) -> int:
    return job.message.size


def _may_be_a_messages_fault(error: TransportError) -> bool:
    """Return True for a plain `TransportError`; its subclasses concern the queue, or all of SQS."""
    return type(error) is TransportError
