"""Queues, a table and a bucket that an app uses and something else created. Makes no calls to AWS.

`App(existing=...)` names them, or ``HEADGATE_EXISTING``, or for a deployment ``existing`` in
``cdk.json``. A deployment grants the use of them, watches them and scales by them; it changes none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from datetime import timedelta
from typing import Any, ClassVar

from headgate.jobs.core.existing.arns import bare_name, is_fifo, region_of
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.durations import DurationField
from headgate.jobs.values.kinds import check_kinds
from headgate.jobs.values.light_dataclass import frozen_dataclass

MAX_RECEIVE_COUNT = 1000
"""SQS's limit for maxReceiveCount, set on every queue of the app's own: waiting for a limit, a
breaker, a child process or a group uses receives, and must never end a job."""

DEAD_LETTERS_RETENTION = timedelta(days=14)
"""The retention of a dead-letter queue of the app's own, SQS's longest."""

_DEFAULT_RETENTION = timedelta(days=4)  # SQS's, of queues that don't say

_SHORTEST, _LONGEST = timedelta(minutes=1), timedelta(days=14)

_LEAST_RECEIVES = 20
"""Fewer would leave no room for the deliveries in which a job is only given back."""

_QUEUE = r"(arn:[\w-]+:sqs:[a-z0-9-]+:\d{12}:)?[A-Za-z0-9_-]{1,80}(\.fifo)?"
_TABLE = r"(arn:[\w-]+:dynamodb:[a-z0-9-]+:\d{12}:table/)?[A-Za-z0-9_.-]{3,255}"
_BUCKET = r"(arn:[\w-]+:s3:::)?[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_KEY = r"arn:[\w-]+:kms:[a-z0-9-]+:\d{12}:key/[\w-]+"


@frozen_dataclass(frozen=True, kw_only=True)
class ExistingQueue:
    """A queue that stands for one of the app's own, and maybe its dead-letter queue.

    What it says of them has to be what they have: ``headgate check --live`` compares the two. The
    visibility timeout is that of the lane, which workers ask for with each receive; only Lambda
    goes by the queue's own.

    Raises:
        ConfigurationError: a name is none, or a number is out of range.
    """

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    queue: str
    """Its name; or its ARN, if it is another account's, in the same region."""
    dead_letters: str | None = None
    """The name or ARN of its dead-letter queue; None: the app has one of its own for it, to which
    workers send the jobs that they give up."""
    max_receive_count: int = MAX_RECEIVE_COUNT
    """The receives after which its redrive policy moves a message away, at least 20; 1,000 also if
    it has no such policy. Each delivery counts, also one in which a job is only given back."""
    retention: DurationField = DurationField(_DEFAULT_RETENTION)
    """Time for which it keeps messages, in seconds or as a timedelta."""
    dead_letters_retention: DurationField = DurationField(DEAD_LETTERS_RETENTION)
    """Time for which its dead-letter queue does: dead letters are copied before it ends."""
    key: str | None = None
    """The ARN of the customer-managed KMS key that encrypts it, if any does."""
    dead_letters_key: str | None = None
    """Likewise the key of its dead-letter queue."""

    def __post_init__(self) -> None:
        owner = f"the existing queue {self.queue!r}"
        check_kinds(owner, self)
        _check_form(owner, "queue", self.queue, _QUEUE)
        _check_form(owner, "dead_letters", self.dead_letters, _QUEUE)
        for name in ("key", "dead_letters_key"):
            _check_form(owner, name, getattr(self, name), _KEY)
        for name in ("retention", "dead_letters_retention"):
            if not _SHORTEST <= getattr(self, name) <= _LONGEST:
                raise ConfigurationError(
                    f"{owner}: {name} must lie between a minute and 14 days, SQS's limits, got "
                    f"{getattr(self, name)}"
                )
        if not _LEAST_RECEIVES <= self.max_receive_count <= MAX_RECEIVE_COUNT:
            raise ConfigurationError(
                f"{owner}: max_receive_count must lie between {_LEAST_RECEIVES} and "
                f"{MAX_RECEIVE_COUNT:,}, got {self.max_receive_count}: raise it in the queue's "
                "redrive policy, since SQS counts each delivery, not each attempt"
            )
        if self.dead_letters is not None and is_fifo(self.dead_letters) != is_fifo(self.queue):
            raise ConfigurationError(
                f"{owner}: the dead-letter queue of a FIFO queue is one too, and of a standard "
                f"queue none, got {self.dead_letters!r}"
            )


@frozen_dataclass(frozen=True, kw_only=True)
class Existing:
    """The resources of an app that something else created; nothing alters them.

    Raises:
        ConfigurationError: a name is none, or two queues have one name.
    """

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    queues: Mapping[str, Mapping[str, ExistingQueue]] = field(default_factory=dict, hash=False)
    """Queues by group and priority: ``{"orders": {"normal": ExistingQueue(queue="orders")}}``."""
    table: str | None = None
    """The name or ARN of a table in the app's account and region, with the keys, the index and the
    expiry of the app's own."""
    table_key: str | None = None
    """The ARN of the customer-managed KMS key that encrypts it, if any does."""
    bucket: str | None = None
    """The name or ARN of a bucket; the app uses the prefixes ``payloads/``, ``results/`` and
    ``dead-letters/``, whose objects should expire by lifecycle rules."""
    bucket_key: str | None = None
    """Likewise its key."""

    def __post_init__(self) -> None:
        check_kinds("existing", self)
        _check_form("existing", "table", self.table, _TABLE)
        _check_form("existing", "bucket", self.bucket, _BUCKET)
        _check_form("existing", "table_key", self.table_key, _KEY)
        _check_form("existing", "bucket_key", self.bucket_key, _KEY)
        for name in self.queue_names:
            if self.queue_names.count(name) > 1:
                raise ConfigurationError(f"existing: two queues are {name!r}")

    def __bool__(self) -> bool:
        return self != NOTHING

    def queue(self, group: str, priority: str) -> ExistingQueue | None:
        """Return the queue that stands for the one of a group and priority, if any does."""
        return self.queues.get(group, {}).get(priority)

    @property
    def table_name(self) -> str | None:
        """The table's name, without the rest of an ARN."""
        return self.table and bare_name(self.table)

    @property
    def bucket_name(self) -> str | None:
        """The bucket's name, likewise."""
        return self.bucket and bare_name(self.bucket)

    @property
    def queue_names(self) -> tuple[str, ...]:
        """The names or ARNs of all queues and dead-letter queues."""
        names = (name for queue in self._all() for name in (queue.queue, queue.dead_letters))
        return tuple(filter(None, names))

    def check_region(self, region: str) -> None:
        """Check that whatever is named by its ARN is in that region.

        Raises:
            ConfigurationError: something is in another one, where the app can't use it.
        """
        keys = [key for each in self._all() for key in (each.key, each.dead_letters_key)]
        for name in (*self.queue_names, *keys, self.table, self.table_key, self.bucket_key):
            if name is not None and region_of(name) not in (None, region):
                raise ConfigurationError(
                    f"existing: {name} is in another region than {region}, where the app runs: "
                    "name one that is there"
                )

    def to_text(self) -> str:
        """Return it as JSON, as ``HEADGATE_EXISTING`` has it; the same always gives the same."""
        return json.dumps(_written(self), separators=(",", ":"), sort_keys=True)

    def _all(self) -> Iterator[ExistingQueue]:
        for of_group in self.queues.values():
            yield from of_group.values()


_SAID = {
    "dataclass_type": "must be an object",
    "dict_type": "must be an object",
    "string_type": "must be a text",
}
"""Messages for pydantic's types of errors, in the terms of JSON."""


def read_existing(value: object) -> Existing:
    """Read what ``cdk.json`` has, or `Existing.to_text` wrote.

    Raises:
        ConfigurationError: it is no JSON, or a field is unknown or invalid; it says which.
    """
    from pydantic import TypeAdapter, ValidationError  # only where there is something to read

    reader = TypeAdapter(Existing)
    try:
        if isinstance(value, str):
            return reader.validate_json(value)
        return reader.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, ("existing", *first["loc"])))
        said = _SAID.get(first["type"], first["msg"].lower())
        raise ConfigurationError(f"{where}: {said}, got {first['input']!r}") from error


def _check_form(owner: str, name: str, value: str | None, form: str) -> None:
    if value is not None and not re.fullmatch(form, value):
        kind = "a key's ARN" if form == _KEY else "a name or an ARN"
        raise ConfigurationError(f"{owner}: {name} must be {kind}, got {value!r}")


def _written(value: Any) -> Any:
    """Return what differs from the defaults, as JSON values."""
    match value:
        case Existing() | ExistingQueue():
            told = [(each.name, getattr(value, each.name), each.default) for each in fields(value)]
            return {name: _written(each) for name, each, own in told if each and each != own}
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {str(name): _written(each) for name, each in value.items()}
    return value


NOTHING = Existing()
"""No existing resources: all are the app's own."""
