"""The names of an app's resources on AWS, and prefixes of the keys in its bucket and table."""

from __future__ import annotations

import re
from datetime import timedelta

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import light_dataclass

MAX_SCHEDULER_NAME = 64
"""The longest name of a schedule, a schedule group, a function or a role.
https://docs.aws.amazon.com/scheduler/latest/APIReference/API_CreateSchedule.html
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""

LONGEST_REGION = len("-ap-southeast-1")
"""Characters that a region's name takes in `role_in`, at most."""

_NAME = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
_MAX_NAME = 128  # of a job type, in the message format; other names are parts of queue names
_MAX_QUEUE_NAME = 80  # quotas-queues.html: 80 characters, ".fifo" included
_MAX_BUCKET_PREFIX = 35  # of S3's 63 characters: account and the longest region take the rest

PAYLOADS = "payloads/"
"""Key prefix of payloads in the bucket."""

RESULTS = "results/"
"""Key prefix of large results; not below that of payloads, which everyone who submits may write."""

EARLIER_RESULTS = f"{PAYLOADS}results/"
"""Key prefix of the results that earlier versions stored, which expire there."""

DEAD_LETTERS = "dead-letters/"
"""Key prefix of dead letters in the bucket, where they are saved before SQS deletes them."""

JOB, ASKED, CHILDREN = "job#", "asked#", "children#"
UNIQUE, LIMIT, SWEPT = "unique#", "limit#", "dead-letters#"
"""Prefixes of the table's partition keys, by which roles are told apart; a partition that a single
module reads and writes is named there. `infra.data.table_rows` has all of them."""

SWEEP = "sweep"
"""The partition of the sweep's lease."""

DEAD_LETTERS_KEPT = timedelta(days=365)
"""Retention of dead letters in the bucket."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The S3 bucket of an app; bucket names are globally unique."""

    prefix: str
    """App, stage and ``payloads``; at most 35 characters."""
    name: str | None = None
    """The full name (``HEADGATE_BUCKET``); None builds it from prefix, account and region."""

    def name_in(self, account: str, region: str) -> str:
        """Return the physical name in that account and region.

        https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
        """
        return self.name or f"{self.prefix}-{account}-{region}"


def scheduler_name(what: str, *parts: str | None, room: int = 0) -> str:
    """Return the name on AWS of something that EventBridge Scheduler uses, its parts hyphenated.

    Args:
        what: the kind of thing, for the error.
        parts: what is None is left out.
        room: the number of characters that are appended to it later.

    Raises:
        ConfigurationError: it would be longer than AWS allows.
    """
    name = "-".join(part for part in parts if part)
    if len(name) + room > MAX_SCHEDULER_NAME:
        raise ConfigurationError(
            f"the schedules' {what} {name!r} has {len(name)} characters; AWS allows "
            f"{MAX_SCHEDULER_NAME - room}: shorten the name of the app or the stage"
        )
    return name


def role_in(role: str, region: str) -> str:
    """Return the name on AWS of a role that serves the app in one region."""
    return f"{role}-{region}"


def check_name(kind: str, name: object) -> str:
    """Return a logical name, checked to be safe inside AWS names.

    Raises:
        ConfigurationError: anything but lower-case words of letters and digits joined by hyphens,
            or more than 128 characters.
    """
    if not isinstance(name, str) or not re.fullmatch(_NAME, name) or len(name) > _MAX_NAME:
        raise ConfigurationError(
            f"{kind} {name!r} must be lower-case letters and digits, joined by single hyphens, "
            f"start with a letter, and have at most {_MAX_NAME} characters"
        )
    return name


def physical_name(app: str, stage: str | None, *parts: str, fifo: bool = False) -> str:
    """Return the name on AWS: app, stage and parts joined by hyphens, ``.fifo`` last.

    Raises:
        ConfigurationError: it would be longer than SQS's 80 characters.
    """
    name = "-".join(part for part in (app, stage, *parts) if part) + (".fifo" if fifo else "")
    if len(name) > _MAX_QUEUE_NAME:
        raise ConfigurationError(
            f"the queue name {name!r} has {len(name)} characters; SQS allows {_MAX_QUEUE_NAME}: "
            "shorten the app, stage or queue name"
        )
    return name


def bucket_prefix(app: str, stage: str | None) -> str:
    """Return `Bucket.prefix` of an app; the end of a long one is replaced by a digest."""
    prefix = "-".join(part for part in (app, stage, "payloads") if part)
    if len(prefix) <= _MAX_BUCKET_PREFIX:
        return prefix
    import hashlib  # only for long names

    digest = hashlib.sha256(prefix.encode()).hexdigest()[:8]
    return f"{prefix[: _MAX_BUCKET_PREFIX - 9].rstrip('-')}-{digest}"
