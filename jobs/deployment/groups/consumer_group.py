"""Lambda functions that run jobs, as a value."""

from __future__ import annotations

import math
from datetime import timedelta

from headgate.jobs.core.naming import check_name
from headgate.jobs.core.topology import Priority
from headgate.jobs.deployment.groups.pollers import INVOCATIONS_EACH, ProvisionedPollers
from headgate.jobs.deployment.groups.queue_selection import QueueSelection
from headgate.jobs.deployment.resource_names import OWN_FUNCTIONS
from headgate.jobs.deployment.surroundings import Architecture
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.durations import DurationField
from headgate.jobs.values.kinds import check_kinds
from headgate.jobs.values.light_dataclass import frozen_dataclass

GIVE_BACK = timedelta(seconds=3)
"""Time from interrupting a function's jobs to its timeout, so that it answers in time."""

FUNCTION_CONCURRENCY = 10
"""Default number of jobs of one invocation that run at once; a batch has ten by default."""

_MAX_CONCURRENCY = 10
_MOST_CONCURRENCY = 1_000
_MOST_FUNCTION_TIMEOUT = timedelta(minutes=15)
_LEAST_FUNCTION_TIMEOUT = timedelta(seconds=5)
_MOST_FUNCTION_MB = 10_240
_LEAST_FUNCTION_MB = 128
_MOST_BATCH = 10_000
_MOST_WINDOW = timedelta(minutes=5)


@frozen_dataclass(frozen=True, kw_only=True)
class ConsumerGroup:
    """A Lambda function that runs the jobs of some queues, delivered by Lambda's pollers of SQS.

    Durations are given in seconds or as timedeltas.

    Raises:
        ConfigurationError: a value is out of range, or two contradict each other.
    """

    name: str
    handler: str
    """The function that `lambdas.consume.consumer` returned, as ``module.attribute``."""
    source: str = "."
    """The directory of the user's code, relative to where CDK runs; paths that ``.dockerignore``
    names there are left out."""
    requirements: str | None = None
    """The user's dependencies: a requirements file, relative to where CDK runs."""
    queues: tuple[str, ...] | None = None
    priorities: tuple[Priority, ...] | None = None
    timeout: DurationField = DurationField(30)
    """The function's timeout, 5 s to 15 min; at most the visibility timeout of each queue."""
    memory_mib: int = 512
    batch_size: int = 10
    """Messages of one invocation, 1 to 10,000; at most 10 for a FIFO queue or without a window."""
    max_batching_window: DurationField = DurationField(0)
    """Time for which messages are gathered for a batch, up to 5 min."""
    max_concurrency: int | None = None
    """Simultaneous invocations for each queue, 2 to 1,000 (MaximumConcurrency). None: 10, or what
    ``pollers`` allow, which exclude it."""
    pollers: ProvisionedPollers | None = None
    """Dedicated pollers for each queue (provisioned mode); None: Lambda's own."""
    architecture: Architecture = "arm64"
    """The processors that the function runs on, and its dependencies are installed for."""
    tracing: bool = False
    """Sample invocations with AWS X-Ray (active tracing)."""
    concurrency: int = FUNCTION_CONCURRENCY
    """Jobs of one invocation that run at once, 1 to 1,000; the function's environment has it as
    ``HEADGATE_CONCURRENCY``, and ``consumer(app, concurrency=...)`` overrides it."""
    typical: DurationField = DurationField(1)
    """Run time of a typical job. A batch of such jobs has to fit into the function's time."""
    submits: bool = True
    """Its handlers may submit jobs to any of the app's queues (``ctx.submit``)."""
    reserved_concurrency: int | None = None
    """Part of the account's concurrency reserved for the function, at least `most_invocations` for
    each of its queues (ReservedConcurrentExecutions). None reserves nothing: these limit it
    already.
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"""

    def __post_init__(self) -> None:
        check_name("consumer", self.name)
        check_kinds(f"the consumer {self.name!r}", self)
        if self.name in OWN_FUNCTIONS:
            raise ConfigurationError(
                f"a consumer can't be called {self.name!r}: Headgate has a function of that name"
            )
        if not _LEAST_FUNCTION_TIMEOUT <= self.timeout <= _MOST_FUNCTION_TIMEOUT:
            raise ConfigurationError(
                f"the consumer {self.name!r}: timeout must lie between 5 s and 15 min, Lambda's "
                f"limit, got {self.timeout}"
            )
        if not _LEAST_FUNCTION_MB <= self.memory_mib <= _MOST_FUNCTION_MB:
            raise ConfigurationError(
                f"the consumer {self.name!r}: memory_mib must lie between {_LEAST_FUNCTION_MB} and "
                f"{_MOST_FUNCTION_MB}, got {self.memory_mib}"
            )
        if not timedelta(0) <= self.max_batching_window <= _MOST_WINDOW:
            raise ConfigurationError(
                f"the consumer {self.name!r}: max_batching_window must lie between 0 and 5 min, "
                f"got {self.max_batching_window}"
            )
        most = _MOST_BATCH if self.max_batching_window >= timedelta(seconds=1) else 10
        if not 1 <= self.batch_size <= most:
            raise ConfigurationError(
                f"the consumer {self.name!r}: batch_size must lie between 1 and {most}"
                f"{'' if most > 10 else ' unless max_batching_window is at least 1 s'}, got "
                f"{self.batch_size}"
            )
        if self.pollers is not None and self.max_concurrency is not None:
            raise ConfigurationError(
                f"the consumer {self.name!r}: max_concurrency and pollers exclude each other: a "
                f"poller invokes the function up to {INVOCATIONS_EACH} times at once"
            )
        if not 2 <= (self.max_concurrency or 2) <= 1_000:
            raise ConfigurationError(
                f"the consumer {self.name!r}: max_concurrency must lie between 2 and 1,000, got "
                f"{self.max_concurrency}"
            )
        if not 1 <= self.concurrency <= _MOST_CONCURRENCY:
            raise ConfigurationError(
                f"the consumer {self.name!r}: concurrency must lie between 1 and "
                f"{_MOST_CONCURRENCY:,}, got {self.concurrency}"
            )
        if self.typical <= timedelta(0):
            raise ConfigurationError(
                f"the consumer {self.name!r}: typical must be positive, got {self.typical}"
            )

    @property
    def selection(self) -> QueueSelection:
        """The queues whose jobs it runs."""
        return QueueSelection(queues=self.queues, priorities=self.priorities)

    @property
    def most_invocations(self) -> int:
        """Simultaneous invocations for each queue."""
        if self.pollers is not None:
            return INVOCATIONS_EACH * self.pollers.maximum
        return self.max_concurrency or _MAX_CONCURRENCY

    @property
    def longest_job(self) -> timedelta:
        """Time available to a job that begins with the invocation."""
        return self.timeout - GIVE_BACK

    @property
    def typical_batch(self) -> timedelta:
        """Run time of a whole batch of typical jobs, with `concurrency` of them at once."""
        return self.typical * math.ceil(self.batch_size / self.concurrency)

    @property
    def hidden(self) -> timedelta:
        """Time for which a message has to stay hidden, since Lambda holds it while a batch gathers
        and while the function runs; nothing extends it."""
        return self.timeout + self.max_batching_window

    @property
    def advised_visibility(self) -> timedelta:
        """Visibility timeout that AWS advises for a function's queues: six times its timeout, plus
        the window.
        https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"""
        return 6 * self.timeout + self.max_batching_window
