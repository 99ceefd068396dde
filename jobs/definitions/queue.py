"""Queue groups, on which job types are declared, and the settings that these share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

from headgate.jobs.core.existing.arns import is_fifo
from headgate.jobs.core.existing.resources import MAX_RECEIVE_COUNT, Existing, ExistingQueue
from headgate.jobs.core.limits import LimitOptions, Limits, check_limit_names
from headgate.jobs.core.naming import check_name, physical_name
from headgate.jobs.core.topology import DEFAULT_LANES, Lane, Priority, PriorityName, QueueSpec
from headgate.jobs.definitions.declares import Declares
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import ConfigurationError, DuplicateJobType
from headgate.jobs.retry.policy import DEFAULT_RETRY, Retry
from headgate.jobs.values.kinds import check_kind

DEFAULT_QUEUE = "jobs"
"""The name of the queue group that every app has."""

Used = Literal["used"]
USED: Used = "used"
"""The priorities of the types that run from a group, in place of priorities."""

Priorities = Literal["all", "used"]
"""The priorities of groups that list none: all four, or those of the types that run from them."""


class Queue(Declares):
    """A queue group: one SQS queue per priority, and the settings that its job types share.

    Args:
        name: lower-case words joined by hyphens; part of the physical names.
        priorities: the group's priorities; each is an SQS queue with its dead-letter queue.
            ``["used"]`` has those of the types that run from it (``priority=`` and
            ``other_priorities=``), which may be another group's with ``accepts_from=``, and besides
            them any others in the list. None does as the app's ``priorities=`` says: those of its
            types, too, or all four.
        lanes: the numbers of priorities that differ from `DEFAULT_LANES`.
        retry: the retry policy of types that declare none.
        fifo: jobs of one group run one at a time, in the order of their submission; see ``group``
            of a submission and ``group_by`` of a type. SQS supports no delays on such a queue.
        limits: ``rate_limit=``, ``concurrency=``, ``retry_budget=`` and ``breaker=`` for all of
            this group's jobs together; see `jobs.core.limits`.
    """

    def __init__(
        self,
        name: str,
        *,
        priorities: Iterable[Priority | PriorityName | Used] | None = None,
        lanes: Mapping[Priority, Lane] | None = None,
        retry: Retry = DEFAULT_RETRY,
        fifo: bool = False,
        **limits: Unpack[LimitOptions],
    ) -> None:
        self.name = check_name("the queue", name)
        check_kind(f"the queue {name!r}: retry", retry, Retry)
        check_kind(f"the queue {name!r}: fifo", fifo, bool)
        self.fifo = fifo
        self.retry = retry
        check_limit_names(limits, f"the queue {name!r}", Queue.__init__.__kwdefaults__ or ())
        self.limits = Limits.of(limits)
        self._listed = None if priorities is None else _priorities(name, priorities)
        """The priorities that it lists; None: it lists none."""
        self._by_app: Priorities | None = None
        """Those that its app gives to groups that list none; None until it is included."""
        check_kind(f"the queue {name!r}: lanes", lanes, Mapping | None)
        self._numbers = dict(DEFAULT_LANES)
        for priority, lane in (lanes or {}).items():
            check_kind(f"the queue {name!r}: lanes[{priority!r}]", lane, Lane)
            self._numbers[self._check_priority(priority)] = self._check_lane(lane)
        self._own: dict[str, JobType[Any, Any]] = {}
        self._registries = [self._own]

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    @property
    def _queue_name(self) -> str:
        return self.name

    @property
    def lanes(self) -> dict[Priority, Lane]:
        """Its priorities with their numbers, the most urgent first."""
        wanted = self._listed
        if self._has_used():
            wanted = frozenset({*(wanted or ()), *self._used})
        return {each: self._numbers[each] for each in Priority if wanted is None or each in wanted}

    @property
    def unused(self) -> tuple[Priority, ...]:
        """The priorities that it neither lists nor has a type for."""
        if self._listed is not None:
            return ()
        used = self._used
        return tuple(each for each in self.lanes if each not in used)

    @property
    def fixed(self) -> frozenset[Priority]:
        """The priorities that it has whatever its types name: those that it lists, or all four."""
        if self._listed is not None:
            return frozenset(each for each in self._listed if isinstance(each, Priority))
        return frozenset() if self._by_app == USED else frozenset(Priority)

    @property
    def lists_none(self) -> bool:
        """True if its app's ``priorities=`` tells which it has."""
        return self._listed is None

    @property
    def _used(self) -> frozenset[Priority]:
        """Those that the types name which run from it, in the apps that it is in."""
        return frozenset(
            Priority(each)
            for registry in self._registries
            for declared in registry.values()
            if self.name in declared.runs_from
            for each in (declared.priority, *declared.other_priorities)
        )

    def _adopt(self, declared: JobType[Any, Any]) -> None:
        self.adopt(declared)

    def adopt(self, declared: JobType[Any, Any]) -> None:
        """Add a type to this queue, and to every app that includes it.

        Raises:
            ConfigurationError: an option doesn't fit this queue.
            DuplicateJobType: the queue or an app has a type of that name.
        """
        if declared.group_by is not None and not self.fifo:
            raise ConfigurationError(
                f"the type {declared.name!r}: group_by orders the jobs of a FIFO queue, and "
                f"{self.name!r} is not one: declare it with app.queue(..., fifo=True)"
            )
        if declared.batch is not None and self.fifo:
            raise ConfigurationError(
                f"the type {declared.name!r} has batch=, and its queue {self.name!r} is FIFO, "
                "where the jobs of a group run one after the other: declare it on a standard "
                "queue, or leave out batch="
            )
        _check_bundling(declared, fifo=self.fifo)
        wanted = declared.place.wanted or self._default_priority(declared.name)
        own, *_ = map(self._check_priority, (wanted, *declared.other_priorities))
        declared.place.settle(own, self.retry)
        _check_accepting(declared, self._own.values(), fifo=self.fifo)
        _register(self._registries, declared)

    def settle(self, app: str, priorities: Priorities) -> None:
        """Set the priorities of a group that lists none, as it joins an app.

        Raises:
            ConfigurationError: an app that it is in sets them otherwise.
        """
        if self._by_app not in (None, priorities) and self._listed is None:
            raise ConfigurationError(
                f"the queue {self.name!r} lists no priorities, and is in two apps: {app!r} says "
                f"priorities={priorities!r}, and the other doesn't. List those of the queue"
            )
        self._by_app = priorities

    def join(self, registry: dict[str, JobType[Any, Any]]) -> None:
        """Add this queue's types, present and future, to an app's registry.

        Raises:
            DuplicateJobType: the registry has a type with the name of one of them.
        """
        for declared in self._own.values():
            _register([registry], declared)
        self._registries.append(registry)

    def specs(self, app: str, stage: str | None, existing: Existing) -> Iterator[QueueSpec]:
        """Yield its SQS queues in an app, one for each priority.

        Raises:
            ConfigurationError: a name is too long for SQS, or an existing queue is of another kind.
        """
        for priority, lane in self.lanes.items():
            parts = (app, stage, self.name, str(priority))
            own = QueueSpec(
                group=self.name,
                priority=priority,
                name=physical_name(*parts, fifo=self.fifo),
                dlq_name=physical_name(*parts, "dlq", fifo=self.fifo),
                fifo=self.fifo,
                lane=lane,
                max_receive_count=MAX_RECEIVE_COUNT,
            )
            found = existing.queue(self.name, priority)
            yield own if found is None else self._replaced(own, found)

    def _replaced(self, own: QueueSpec, found: ExistingQueue) -> QueueSpec:
        """Return a queue of the group with the name and numbers of the one that stands for it."""
        if is_fifo(found.queue) != self.fifo:
            raise ConfigurationError(
                f"the queue {self.name!r} is declared with fifo={self.fifo}, and {found.queue!r}, "
                f"which exists, is a {'standard' if self.fifo else 'FIFO'} queue: declare it with "
                f"fifo={not self.fifo}, or name another"
            )
        return replace(
            own,
            name=found.queue,
            dlq_name=found.dead_letters or own.dlq_name,
            max_receive_count=found.max_receive_count,
            retention=found.retention,
            dlq_retention=found.dead_letters_retention if found.dead_letters else own.dlq_retention,
            existing=found,
        )

    def _has_used(self) -> bool:
        """Return True if a type's priority becomes one of the group's."""
        return self._by_app == USED if self._listed is None else USED in self._listed

    def _default_priority(self, job_type: str) -> Priority:
        if self._listed is None or self._has_used():
            return Priority.NORMAL
        if len(self.lanes) == 1:
            return next(iter(self.lanes))
        if Priority.NORMAL not in self.lanes:
            raise ConfigurationError(
                f"the type {job_type!r} names no priority, and its queue {self.name!r} has no "
                f"'normal' to fall back on: write priority=, one of {', '.join(self.lanes)}"
            )
        return Priority.NORMAL

    def _check_lane(self, lane: Lane) -> Lane:
        if self.fifo and lane.gather:
            raise ConfigurationError(
                f"the queue {self.name!r} is FIFO, so each job waits for the delete of the one "
                "before it: leave out the lane's gather="
            )
        return lane

    def _check_priority(self, priority: Priority | PriorityName) -> Priority:
        any_of_them = self._has_used()
        known = tuple(Priority) if any_of_them else tuple(self.lanes)
        if priority not in known:
            raise ConfigurationError(
                f"the queue {self.name!r} has no priority {str(priority)!r}: "
                f"{'there are' if any_of_them else 'it was declared with'} {', '.join(known)}"
            )
        return Priority(priority)


def duplicate(one: JobType[Any, Any], other: JobType[Any, Any]) -> DuplicateJobType:
    """Return the error about two types of one name."""
    where = f"both are on the queue {one.queue!r}"
    if one.queue != other.queue:
        where = f"one is on the queue {one.queue!r}, the other on {other.queue!r}"
    return DuplicateJobType(f"two job types are called {one.name!r}: {where}. Rename one")


def _register(
    registries: Sequence[dict[str, JobType[Any, Any]]], declared: JobType[Any, Any]
) -> None:
    for registry in registries:
        if (other := registry.get(declared.name)) is not None:
            raise duplicate(other, declared)
    for registry in registries:
        registry[declared.name] = declared


def _check_bundling(declared: JobType[Any, Any], *, fifo: bool) -> None:
    if declared.bundle is None:
        return
    if fifo:
        raise ConfigurationError(
            f"the type {declared.name!r} has bundle=, and its queue {declared.queue!r} is FIFO, "
            "which orders messages, and not the jobs in them: leave out bundle=, or declare the "
            "type on a standard queue"
        )
    if declared.unique is not None and declared.unique.keep == "last":
        raise ConfigurationError(
            f'the type {declared.name!r} has bundle= and Unique(keep="last"), and jobs that may be '
            'replaced by a later one travel alone: leave out bundle=, or write keep="first"'
        )


def _check_accepting(
    declared: JobType[Any, Any], others: Iterable[JobType[Any, Any]], *, fifo: bool
) -> None:
    accepted = declared.accepts
    if accepted is not None and accepted.format == "s3" and fifo:
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-how-to-event-types-and-destinations.html
        raise ConfigurationError(
            f"the type {declared.name!r} accepts S3's notifications, and its queue "
            f"{declared.queue!r} is FIFO, to which S3 sends none: declare it on a standard queue"
        )
    if accepted is None or accepted.format == "json":
        return  # several types may accept JSON, as each message names its type
    for other in others:
        if other.accepts is not None and other.accepts.format == accepted.format:
            raise ConfigurationError(
                f"the types {other.name!r} and {declared.name!r} of the queue {declared.queue!r} "
                f"both accept {accepted.format} messages, which don't name their type: declare "
                "one of them on a queue of its own"
            )


def _priorities(
    queue: str, wanted: Iterable[Priority | PriorityName | Used]
) -> frozenset[Priority | Used]:
    if not isinstance(wanted, Iterable):
        raise ConfigurationError(
            f"the queue {queue!r}: priorities must be a list, got {wanted!r}: "
            "write [Priority.NORMAL]"
        )
    try:
        chosen = frozenset(
            priority if priority == USED else Priority(priority)
            for priority in wanted
            if not isinstance(wanted, str)
        )
    except ValueError as error:
        raise ConfigurationError(
            f"the queue {queue!r}: {error}; there are {', '.join((*Priority, USED))}"
        ) from error
    if not chosen:
        raise ConfigurationError(
            f"the queue {queue!r} needs at least one priority, in a list, got {wanted!r}"
        )
    return chosen
