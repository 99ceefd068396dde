"""AWS could not be asked, or said no; nor could the job wait for it in a spool."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.jobs.errors.root import HeadgateError


class TransportError(HeadgateError):
    """A call to AWS failed; ``transient`` says whether the same call may succeed later."""

    transient = False


class CredentialsMissing(TransportError):
    """No AWS credentials were found, or they are incomplete or expired."""


class CredentialsNotConfigured(CredentialsMissing):
    """Nothing says where to find AWS credentials, or it can't be right: waiting brings none."""


class RegionMissing(TransportError):
    """No AWS region is configured."""


class AccessDenied(TransportError):
    """The credentials may not do this to that queue, table or bucket."""


class QueueMissing(TransportError):
    """A queue of the topology does not exist on AWS."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(
            f"the queue {queue!r} does not exist in this account and region: provision it with "
            "`cdk deploy`, or check AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL and HEADGATE_STAGE"
        )


class QueuesMissing(TransportError):
    """None of the queues that a worker receives from exists on AWS."""

    def __init__(self, queues: Sequence[str]) -> None:
        self.queues = tuple(queues)
        super().__init__(
            f"none of this worker's queues exists in this account and region: "
            f"{', '.join(map(repr, self.queues))}: provision them with `cdk deploy`, or check "
            "AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL and HEADGATE_STAGE"
        )


class TableMissing(TransportError):
    """The app's table does not exist on AWS."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"the table {table!r} does not exist in this account and region: provision it with "
            "`cdk deploy`, or check AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL and HEADGATE_STAGE"
        )


class ItemRefused(TransportError):
    """The table can't hold an item: it is too large or too deep, or holds what JSON or UTF-8 lacks.

    Nothing of its batch was written; without it the others can be.
    """


class ScheduleGroupMissing(TransportError):
    """The app's group of schedules does not exist on AWS."""

    def __init__(self, group: str) -> None:
        self.group = group
        super().__init__(
            f"the schedule group {group!r} does not exist in this account and region: provision it "
            "with `cdk deploy`, or check AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL and "
            "HEADGATE_STAGE"
        )


class BucketMissing(TransportError):
    """The app's bucket does not exist on AWS."""

    def __init__(self, bucket: str) -> None:
        self.bucket = bucket
        super().__init__(
            f"the bucket {bucket!r} does not exist in this account and region: provision it with "
            "`cdk deploy`, or check AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL, HEADGATE_STAGE and "
            "HEADGATE_BUCKET"
        )


class Throttled(TransportError):
    """AWS asked for fewer requests."""

    transient = True


class ServiceUnavailable(TransportError):
    """AWS could not be reached, or failed on its side."""

    transient = True


class SpoolError(TransportError):
    """The file of ``spool=`` can't be used, or could not keep a job.

    Of a job that was not kept, ``__cause__`` is what kept SQS from taking it.
    """

    def __init__(self, path: str, detail: str) -> None:
        self.path = path
        super().__init__(f"the spool {path!r} {detail}")


class SpoolCorrupt(SpoolError):
    """It is damaged, or not a file of Headgate's."""


class SpoolFull(SpoolError):
    """It has no room for the job: so many jobs, or bytes, wait in it."""

    transient = True


class SpoolNewer(SpoolError):
    """It was written by a newer version than this one understands."""
