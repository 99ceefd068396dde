"""Every error that Headgate raises, as one tree.

HeadgateError
├── ConfigurationError              the app, its command line or its environment is wrong
│   ├── AppFaulty                   `headgate check` finds errors in the app
│   ├── AppImportError              "module:app" doesn't lead to an App
│   ├── DuplicateJobType            two types of one name
│   ├── HandlerMissing              a worker would receive a type that it can't run
│   └── SettingsInvalid             a setting is unknown or out of range
├── SubmissionError                 a job was refused before it was sent
│   ├── PayloadInvalid
│   ├── PayloadTooLarge
│   ├── DelayInvalid
│   ├── OptionInvalid
│   ├── UnknownJobType
│   └── UnknownQueue                no such queue, or not with that priority
├── SubmissionFailed                SQS did not take some of a batch
├── ScheduleError                   a schedule can't be what was asked for
│   ├── ScheduleExists
│   ├── ScheduleMissing
│   └── ScheduleDeclared            it is the code's, and changed there
├── MessageError                    a received message can't become a job
│   ├── MessageUnreadable
│   ├── MessageTypeUnknown
│   ├── MessageQueueWrong       its type doesn't run from the queue it is in
│   ├── MessageSchemaNewer
│   └── PayloadLost             the object that holds its payload is gone or damaged
├── TransportError                  AWS could not be asked, or said no
│   ├── CredentialsMissing
│   │   └── CredentialsNotConfigured    nothing says where to find any
│   ├── RegionMissing
│   ├── AccessDenied
│   ├── QueueMissing
│   ├── QueuesMissing               of all that a worker receives from
│   ├── TableMissing
│   ├── ItemRefused             the table can't hold what was to be written
│   ├── ScheduleGroupMissing
│   ├── BucketMissing
│   ├── Throttled
│   ├── ServiceUnavailable
│   └── SpoolError                  nor could the file of spool= keep a job, or be used at all
│       ├── SpoolCorrupt
│       ├── SpoolFull
│       └── SpoolNewer
├── InlineFailed                    a job that ran in place, for want of SQS, failed
├── ResultNotKept                   what a handler returned can't stand in a record
├── ResultError                     a job has no result, or none that can be had
│   ├── JobDead
│   ├── JobDiscarded
│   ├── JobCancelled
│   ├── ResultTimeout               it has not finished yet
│   ├── ResultInvalid               what was kept is not what its handler returns
│   └── RecordsOff                  nothing that would tell is kept
├── JobTimeout                      an attempt ran past its timeout
├── ChildFailed                     a handler raised in a process of its own
└── ChildDied                       that process ended with the handler in it

JobSignal                           raised by a handler to steer its own job
├── RetryLater
├── DoNotRetry
└── Discard

Stopped                             raised by `ctx.raise_if_cancelled`; no `Exception`
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

__all__ = [
    "AccessDenied",
    "AppFaulty",
    "AppImportError",
    "BucketMissing",
    "ChildDied",
    "ChildFailed",
    "ConfigurationError",
    "CredentialsMissing",
    "CredentialsNotConfigured",
    "DelayInvalid",
    "Discard",
    "DoNotRetry",
    "DuplicateJobType",
    "Fault",
    "HandlerMissing",
    "HeadgateError",
    "InlineFailed",
    "ItemRefused",
    "JobCancelled",
    "JobDead",
    "JobDiscarded",
    "JobSignal",
    "JobTimeout",
    "MessageError",
    "MessageQueueWrong",
    "MessageSchemaNewer",
    "MessageTypeUnknown",
    "MessageUnreadable",
    "OptionInvalid",
    "PayloadInvalid",
    "PayloadLost",
    "PayloadTooLarge",
    "QueueMissing",
    "QueuesMissing",
    "RecordsOff",
    "Refusal",
    "RegionMissing",
    "ResultError",
    "ResultInvalid",
    "ResultNotKept",
    "ResultTimeout",
    "RetryLater",
    "ScheduleDeclared",
    "ScheduleError",
    "ScheduleExists",
    "ScheduleGroupMissing",
    "ScheduleMissing",
    "ServiceUnavailable",
    "SettingsInvalid",
    "SpoolCorrupt",
    "SpoolError",
    "SpoolFull",
    "SpoolNewer",
    "Stopped",
    "SubmissionError",
    "SubmissionFailed",
    "TableMissing",
    "Throttled",
    "TransportError",
    "UnknownJobType",
    "UnknownQueue",
]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """End an error about an unknown name: the nearest known one, or all of them."""
    names = sorted(known)
    if near := difflib.get_close_matches(name, names, n=1):
        return f"did you mean {near[0]!r}?"
    return f"known are: {', '.join(names)}" if names else "none is declared"


class HeadgateError(Exception):
    """The root of every error that Headgate raises; a handler's own errors are not under it."""


# --- the configuration is wrong ------------------------------------------------------------------


class ConfigurationError(HeadgateError):
    """The app, the command line or the environment is wrong; nothing was sent or received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong with an app, or with its deployment."""

    rule: str
    """Its name, which stays the same between versions."""
    where: str
    """The job type or queue."""
    what: str
    why: str
    """What would happen."""
    instead: str
    """What to write."""
    severity: Literal["error", "warning"] = "error"
    """An app with errors is not synthesized."""

    def __str__(self) -> str:
        end = "" if self.what.endswith("?") else "."
        return f"{self.where}: {self.what}{end} {self.why}. {self.instead} [{self.rule}]"


class AppFaulty(ConfigurationError):
    """An app that ``headgate check`` finds errors in can't be deployed; the message lists them."""

    def __init__(self, message: str, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__(message)


class AppImportError(ConfigurationError):
    """An app path such as ``shop.app:app`` doesn't lead to an App; the message says which part."""


class DuplicateJobType(ConfigurationError):
    """Two job types share one name, so a message could not say which of them it is for."""


class HandlerMissing(ConfigurationError):
    """A job type has no handler where one has to run."""


class SettingsInvalid(ConfigurationError):
    """A setting is unknown, out of range, or contradicts another."""


# --- a job was refused before it was sent --------------------------------------------------------


class SubmissionError(HeadgateError):
    """A job was refused at the edge; nothing was sent."""


class PayloadInvalid(SubmissionError):
    """The payload doesn't fit the job type's model; the message names the type and each field."""


class PayloadTooLarge(SubmissionError):
    """The payload is larger than can be submitted."""


class DelayInvalid(SubmissionError):
    """A delay is negative, too long, or its time has no time zone."""


class OptionInvalid(SubmissionError):
    """An option of a submission is out of range."""


class UnknownJobType(SubmissionError):
    """The job type is not one of this app's."""


class UnknownQueue(SubmissionError):
    """The app has no such queue, or that queue has no such priority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One entry of a batch that SQS did not take."""

    index: int
    """Position in what was submitted, from 0."""
    id: str
    """The id the job would have had."""
    code: str
    """SQS's error code, such as ``InternalError``."""
    message: str
    sender_fault: bool
    """True when SQS blames the request, so that sending it again can't help."""


class SubmissionFailed(HeadgateError):
    """SQS took none or only some of the submitted jobs, after retries.

    ``refusals`` lists those that it is not known to have taken, ``sent`` has the ids of those that
    it took, or had already, both in the order of the call, and ``submitted`` counts all of them.
    """

    def __init__(
        self, refusals: Sequence[Refusal], submitted: int, *, sent: Sequence[str] = ()
    ) -> None:
        self.refusals = tuple(refusals)
        self.submitted = submitted
        self.sent = tuple(sent)
        first = self.refusals[0]
        super().__init__(
            f"SQS did not take {len(self.refusals)} of {submitted} jobs; "
            f"first: job {first.id}: {first.code}: {first.message}. "
            "The others were accepted: submit again only what .refusals lists"
        )


# --- a schedule can't be what was asked for -----------------------------------------------------


class ScheduleError(HeadgateError):
    """A schedule can't be what was asked for; nothing was changed."""


class ScheduleExists(ScheduleError):
    """The app has a schedule of that name already."""


class ScheduleMissing(ScheduleError):
    """The app has no schedule of that name on AWS."""


class ScheduleDeclared(ScheduleError):
    """The schedule is declared on its job type, so only the code can change or remove it."""


# --- a received message can't become a job -------------------------------------------------------


class MessageError(HeadgateError):
    """A received message can't be run here; it is backed off and then parked, never deleted."""


class MessageUnreadable(MessageError):
    """The body is not a Headgate message, or its payload no longer fits the type's model."""


class MessageTypeUnknown(MessageError):
    """No type of that name in this app: another version of it may know the type."""


class MessageQueueWrong(MessageError):
    """The message is in a queue that its type neither belongs to nor accepts messages from."""


class MessageSchemaNewer(MessageError):
    """The message was written by a newer version than this one understands."""


class PayloadLost(MessageError):
    """The payload is not in the message, and the object that holds it is gone or damaged."""


# --- AWS could not be asked, or said no ----------------------------------------------------------


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


# --- and the job could not wait for AWS either ---------------------------------------------------


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


class InlineFailed(HeadgateError):
    """A job that ran in place, since SQS could not be reached, failed; ``__cause__`` is its error.

    It is in no queue, and in no dead-letter queue: nothing will run it again.
    """

    def __init__(self, job_id: str, job_type: str, *, attempts: int, why: str) -> None:
        self.job_id = job_id
        self.job_type = job_type
        self.attempts = attempts
        super().__init__(
            f"SQS could not be reached, so the {job_type!r} {job_id} ran in place. It was given up "
            f"after {attempts} attempt(s): {why}. It is in no queue, so nothing will run it again"
        )


# --- a job has no result, or none that can be had ------------------------------------------------


class ResultError(HeadgateError):
    """The result of a job, or its state, can't be had; ``job_id`` says of which."""

    def __init__(self, job_id: str, message: str) -> None:
        self.job_id = job_id
        super().__init__(message)


class JobDead(ResultError):
    """The job failed for good: it is in its dead-letter queue, or in the quarantine.

    ``reason`` is why it was given up (see `jobs.execution.outcome.Reason`; ``quarantined`` for the
    other queue), ``error_type`` and ``error_message`` are of its last error.
    """

    def __init__(self, job_id: str, *, reason: str, error_type: str, error_message: str) -> None:
        self.reason = reason
        self.error_type = error_type
        self.error_message = error_message
        error = ": ".join(filter(None, (error_type, error_message)))
        why = "; ".join(filter(None, (reason, error)))
        super().__init__(job_id, f"the job {job_id} is dead: {why}")


class JobDiscarded(ResultError):
    """Its handler ended the job without success or failure, for ``reason``."""

    def __init__(self, job_id: str, reason: str) -> None:
        self.reason = reason
        super().__init__(job_id, f"the handler of the job {job_id} discarded it: {reason}")


class JobCancelled(ResultError):
    """The job was cancelled before its handler returned, for ``reason``."""

    def __init__(self, job_id: str, reason: str) -> None:
        self.reason = reason
        super().__init__(job_id, f"the job {job_id} was cancelled: {reason or 'no reason given'}")


class ResultTimeout(ResultError, TimeoutError):
    """The job did not finish within ``timeout_s``; it goes on. ``state`` is what was last seen."""

    def __init__(self, job_id: str, *, state: str, timeout_s: float) -> None:
        self.state = state
        self.timeout_s = timeout_s
        super().__init__(
            job_id,
            f"the job {job_id} has not finished within {timeout_s:g} s; its state is {state}",
        )


class ResultInvalid(ResultError):
    """The job has completed, and what was kept of its result is not what its handler returns."""


class RecordsOff(ResultError):
    """The app keeps no records that would tell; the message says which level would."""


# --- an attempt ran too long ---------------------------------------------------------------------


class ResultNotKept(HeadgateError):
    """What a handler returned can't stand in a record."""


class JobTimeout(HeadgateError, TimeoutError):
    """An attempt ran past its type's timeout and was cancelled. It counts as transient."""

    def __init__(self, job_type: str, timeout_s: float, *, detail: str = "") -> None:
        self.timeout_s = timeout_s
        super().__init__(f"{job_type!r} ran past its timeout of {timeout_s:g} s{detail}")


# --- a handler in a process of its own ----------------------------------------------------------


class ChildFailed(HeadgateError):
    """A handler raised in its own process: what the worker knows of the error, without its object.

    The child judges the error by its type's policy, since only it has the error's class.
    """

    def __init__(
        self,
        error_type: str,
        message: str,
        *,
        traceback: str,
        retryable: bool,
        retry_after_s: float | None,
    ) -> None:
        self.error_type = error_type
        self.traceback = traceback
        self.retryable = retryable
        self.retry_after = retry_after_s  # as errors of HTTP clients call it
        super().__init__(message)


class ChildDied(HeadgateError):
    """The process that ran a handler died: by a signal, by exiting, or for want of memory."""


# --- raised by a handler to steer its own job ----------------------------------------------------


class JobSignal(Exception):
    """What a handler raises to decide its job's fate; not an error of Headgate's."""


class RetryLater(JobSignal):
    """Give the job back and run it again after ``after``, at least a second.

    It is no failure, and uses up no attempt; but without records, where attempts are counted by
    deliveries, it uses one. A wait of more than a year is taken for a mistake: the job is
    dead-lettered as ``wait-too-long``.
    """

    def __init__(self, after: timedelta, reason: str = "") -> None:
        if not isinstance(after, timedelta):
            raise TypeError(f"RetryLater(after=...) must be a timedelta, got {after!r}")
        if after < timedelta(seconds=1):
            raise ValueError(f"RetryLater(after=...) must be at least a second, got {after}")
        self.after = after
        self.reason = reason
        super().__init__(reason or f"retry in {after}")


class DoNotRetry(JobSignal):
    """Fail for good: the job goes to the dead-letter queue with ``reason``, whatever is left."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Discard(JobSignal):
    """End the job without success or failure: it is deleted, and ``reason`` is recorded."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


# --- an attempt ends early -----------------------------------------------------------------------


class Stopped(BaseException):
    """Give the job back unfinished, because it was asked to end; see ``ctx.raise_if_cancelled``.

    A `BaseException`, as `asyncio.CancelledError` is: a handler's own ``except Exception`` must not
    turn a job that was stopped into one that has completed.
    """

    def __init__(self) -> None:
        super().__init__("ended early, as it was asked to")
