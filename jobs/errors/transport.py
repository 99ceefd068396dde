"""Errors of calls to AWS that failed or were refused, and of the spool that jobs wait in."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.jobs.errors.root import HeadgateError

_PROVISION = "with `cdk deploy`, on a local AWS with `headgate provision`"

_SETTINGS = "AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL and HEADGATE_STAGE"
"""The settings on which it depends where resources are looked for."""


class TransportError(HeadgateError):
    """A call to AWS failed; ``transient`` is True if the same call may succeed later."""

    transient = False


class AuditFailed(TransportError):
    """An action was not carried out, since it could not be entered into the app's audit."""

    def __init__(self, cause: TransportError) -> None:
        self.transient = cause.transient
        super().__init__(f"nothing was done, since the audit could not be written: {cause}")


class CredentialsMissing(TransportError):
    """No AWS credentials were found, or they are incomplete or expired."""


class CredentialsNotConfigured(CredentialsMissing):
    """No source of AWS credentials is configured, or not a valid one: waiting can't help."""


class RegionMissing(TransportError):
    """No AWS region is configured."""


class AccessDenied(TransportError):
    """The credentials don't permit this action on that queue, table or bucket."""


class QueueMissing(TransportError):
    """A queue of the topology does not exist on AWS."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(
            f"the queue {queue!r} does not exist in this account and region: provision it "
            f"{_PROVISION}, or check {_SETTINGS}"
        )


class QueuesMissing(TransportError):
    """None of the queues that a worker receives from exists on AWS."""

    def __init__(self, queues: Sequence[str]) -> None:
        self.queues = tuple(queues)
        super().__init__(
            f"none of this worker's queues exists in this account and region: "
            f"{', '.join(map(repr, self.queues))}: provision them {_PROVISION}, or check "
            f"{_SETTINGS}"
        )


class TableMissing(TransportError):
    """The app's table does not exist on AWS."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"the table {table!r} does not exist in this account and region: provision it "
            f"{_PROVISION}, or check {_SETTINGS}"
        )


class ItemRefused(TransportError):
    """The table can't store an item: too large, nested too deeply, or not valid as JSON or UTF-8.

    Nothing of its batch was written; the others can be written without it.
    """


class ItemUnreadable(TransportError):
    """An item of the table is not one that Headgate can have written; queries leave it out."""

    def __init__(self, pk: str, sk: str) -> None:
        self.pk = pk
        self.sk = sk
        super().__init__(
            f"the item pk={pk[:200]!r}, sk={sk[:200]!r} is not one that Headgate has written: "
            "delete it, and see who may write to the table"
        )


class ScheduleGroupMissing(TransportError):
    """The app's group of schedules does not exist on AWS."""

    def __init__(self, group: str) -> None:
        self.group = group
        super().__init__(
            f"the schedule group {group!r} does not exist in this account and region: provision it "
            f"{_PROVISION}, or check {_SETTINGS}"
        )


class BucketMissing(TransportError):
    """The app's bucket does not exist on AWS."""

    def __init__(self, bucket: str) -> None:
        self.bucket = bucket
        super().__init__(
            f"the bucket {bucket!r} does not exist in this account and region: provision it "
            f"{_PROVISION}, or check {_SETTINGS}, and HEADGATE_BUCKET"
        )


class SecretMissing(TransportError):
    """The secret with the key that signs messages does not exist on AWS."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        super().__init__(
            f"the secret {secret!r} does not exist in this account and region, or has no value: "
            f"provision it {_PROVISION}, or check {_SETTINGS}"
        )


class Throttled(TransportError):
    """AWS asked for fewer requests."""

    transient = True


class ServiceUnavailable(TransportError):
    """AWS could not be reached, or failed on its side."""

    transient = True


class SpoolError(TransportError):
    """The file of ``spool=`` can't be used, or could not store a job.

    For a job that was not stored, ``__cause__`` is the error that kept SQS from taking it.
    """

    def __init__(self, path: str, detail: str) -> None:
        self.path = path
        super().__init__(f"the spool {path!r} {detail}")


class SpoolCorrupt(SpoolError):
    """The spool is damaged, or not a file of Headgate."""


class SpoolFull(SpoolError):
    """The spool has no room for the job: its maximum of jobs or bytes is reached."""

    transient = True


class SpoolNewer(SpoolError):
    """The spool was written by a newer version, in a format that this one can't read."""
