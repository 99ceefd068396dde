"""The configuration of one worker process."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlsplit

from headgate.jobs.core.topology import Priority
from headgate.jobs.deployment.groups.queue_selection import QueueSelection
from headgate.jobs.errors import SettingsInvalid, did_you_mean
from headgate.jobs.values.kinds import check_kinds
from headgate.jobs.values.light_dataclass import light_dataclass

_MOST_CONCURRENCY = 1000
_MOST_CHILDREN = 256
_MOST_PORT = 65535
_SHORT_WAIT = timedelta(seconds=1)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings of one worker: its concurrency, its queues, and its shutdown.

    Raises:
        SettingsInvalid: a value is of the wrong kind, or out of range.
    """

    concurrency: int = 50
    """Number of concurrent jobs, 1 to 1000; also the number of threads for synchronous handlers."""
    reserved: int | None = None
    """Number of these slots reserved for critical jobs, so that one which arrives starts at once.
    None takes a tenth of ``concurrency``, rounded down, if the worker has critical and other
    queues."""
    children: int | None = None
    """Child processes for handlers with ``isolation="process"``, 1 to 256; None takes the machine's
    CPUs. An app without such handlers has none."""
    queues: tuple[str, ...] | None = None
    """The queue groups to work on; None means all of the app's."""
    priorities: tuple[Priority, ...] | None = None
    """The priorities of these groups to work on; None means all that they have."""
    drain: timedelta = timedelta(seconds=22)
    """Time that running jobs may continue after SIGTERM. It lets the longest receive return, and
    with the 8 s that interruption and the last settlements may take it fits into ECS's stop timeout
    of 30 s; raise both together."""
    give_back_after: timedelta = timedelta(seconds=5)
    """Time without a slot after which a received message goes back to its queue. A redelivered one,
    or one that a limit holds back, is kept twelve times longer, growing to 72 times with each
    return. See `workers.dispatch.patience`."""
    receive_wait: timedelta | None = None
    """Time that a poll waits for its first message, 1 to 20 s; None takes the queue's, 20 s. An
    idle worker ends no sooner than its polls do; see `short_wait`."""
    queue_grace: timedelta = timedelta(minutes=2)
    """Time that a worker waits while none of its queues exists, before it ends."""
    app_version: str = ""
    """The version of the app's code, which the worker's status shows."""

    def __post_init__(self) -> None:
        check_kinds("the worker", self, SettingsInvalid)
        if not 1 <= self.concurrency <= _MOST_CONCURRENCY:
            raise SettingsInvalid(
                f"concurrency must lie between 1 and {_MOST_CONCURRENCY}, got {self.concurrency}"
            )
        if self.reserved is not None and not 0 <= self.reserved < self.concurrency:
            raise SettingsInvalid(
                f"reserved must leave other jobs a slot: 0 to {self.concurrency - 1} of "
                f"{self.concurrency}, got {self.reserved}"
            )
        if self.children is not None and not 1 <= self.children <= _MOST_CHILDREN:
            raise SettingsInvalid(
                f"children must lie between 1 and {_MOST_CHILDREN}, got {self.children}"
            )
        if self.drain < timedelta(0):
            raise SettingsInvalid(f"drain must not be negative, got {self.drain}")
        if self.queue_grace < timedelta(0):
            raise SettingsInvalid(f"queue_grace must not be negative, got {self.queue_grace}")
        if self.give_back_after <= timedelta(0):
            raise SettingsInvalid(f"give_back_after must be positive, got {self.give_back_after}")
        if self.receive_wait is not None and not (
            timedelta(seconds=1) <= self.receive_wait <= timedelta(seconds=20)
        ):
            raise SettingsInvalid(
                f"receive_wait must lie between 1 and 20 s, SQS's limit, got {self.receive_wait}"
            )

    @property
    def selection(self) -> QueueSelection:
        """The queues to work on."""
        return QueueSelection(queues=self.queues, priorities=self.priorities)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ObservabilitySettings:
    """The settings of a worker process's health checks and metrics.

    Raises:
        SettingsInvalid: the port is not a valid one.
    """

    port: int | None = None
    """The port on which `workers.observability.health_server.Endpoint` serves health and metrics;
    None serves them nowhere. Of several processes the second takes the next port, and so on. 0
    takes any free one."""
    host: str = "127.0.0.1"
    """The address that it binds: only this machine's own by default."""
    emf: bool = False
    """Write metrics for CloudWatch to standard output; see `jobs.deployment.metric_lines`."""

    def __post_init__(self) -> None:
        check_kinds("the worker", self, SettingsInvalid)
        if self.port is not None and not 0 <= self.port <= _MOST_PORT:
            raise SettingsInvalid(
                f"the health port must lie between 0 and {_MOST_PORT}, got {self.port}"
            )


def short_wait(environ: Mapping[str, str], *, terminal: bool) -> timedelta | None:
    """Return the ``receive_wait`` of a worker that is stopped by hand, 1 s; None for any other.

    A poll that is cut may have taken messages, which then stay hidden, so an idle worker has to
    wait for its polls to end. Short polls make sixty requests per minute and queue, long ones
    three: that is worth it in a terminal, and an AWS emulator on this machine costs nothing.
    """
    return _SHORT_WAIT if terminal or is_local(environ) else None


def is_local(environ: Mapping[str, str]) -> bool:
    """Return True if the AWS that an environment leads to is an emulator on this machine."""
    names = ("AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL")
    endpoint = next((found for name in names if (found := environ.get(name))), "")
    try:
        host = urlsplit(endpoint).hostname or ""
    except ValueError:  # not a URL; opening the connection reports that
        return False
    return host in ("localhost", "::1") or host.startswith("127.")


DEFAULTS = WorkerSettings()
UNWATCHED = ObservabilitySettings()


def read_priorities(text: str) -> tuple[Priority, ...]:
    """Parse priorities from a list such as ``critical,high``.

    Raises:
        SettingsInvalid: a name in it is not a priority.
    """
    return tuple(_priority(name.strip()) for name in text.split(","))


def _priority(name: str) -> Priority:
    try:
        return Priority(name)
    except ValueError as error:
        raise SettingsInvalid(
            f"there is no priority {name!r}: {did_you_mean(name, map(str, Priority))}"
        ) from error
