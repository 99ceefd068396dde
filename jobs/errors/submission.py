"""Errors of submitted jobs and requested schedules: refused by a check, or not taken by AWS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.jobs.errors.root import HeadgateError


class SubmissionError(HeadgateError):
    """A job was refused before sending; nothing was sent."""


class PayloadInvalid(SubmissionError):
    """The payload doesn't fit the job type's model; the message names the type and each field."""


class PayloadTooLarge(SubmissionError):
    """The payload is larger than can be submitted."""


class DelayInvalid(SubmissionError):
    """A delay is negative or too long, or its time has no time zone."""


class OptionInvalid(SubmissionError):
    """An option of a submission is out of range."""


class CostInvalid(SubmissionError):
    """The job costs more than a rate limit has, so that it could never start, or the limit's
    ``cost=`` can't tell; the message names the type and the limit."""


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
    """The id that the job would have had."""
    code: str
    """SQS's error code, such as ``InternalError``."""
    message: str
    sender_fault: bool
    """True if the request itself is at fault, so that sending it again can't help."""


class PartlySubmitted(HeadgateError):
    """SQS took none or only some of the submitted jobs, after retries.

    ``refusals`` lists those that SQS is not known to have taken and ``sent`` the ids of those that
    it took or already had, both in the order of the call; ``submitted`` is the number of all jobs.
    """

    def __init__(
        self, refusals: Sequence[Refusal], submitted: int, *, sent: Sequence[str] = ()
    ) -> None:
        self.refusals = tuple(refusals)
        self.submitted = submitted
        self.sent = tuple(sent)
        first = self.refusals[0]
        others = "The others were accepted: submit" if len(self.refusals) < submitted else "Submit"
        super().__init__(
            f"SQS did not take {len(self.refusals)} of {submitted} jobs; "
            f"first: job {first.id}: {first.code}: {first.message}. "
            f"{others} again only what .refusals lists"
        )


class ScheduleError(HeadgateError):
    """A request about a schedule can't be fulfilled; nothing was changed."""


class ScheduleExists(ScheduleError):
    """The app has a schedule of that name already."""


class ScheduleMissing(ScheduleError):
    """The app has no schedule of that name on AWS."""


class ScheduleDeclared(ScheduleError):
    """The schedule is declared on its job type, so only the code can remove it."""


class InlineFailed(HeadgateError):
    """A job that ran in place, since SQS could not be reached, failed; ``__cause__`` is its error.

    It is in no queue and no dead-letter queue: nothing will run it again.
    """

    def __init__(self, job_id: str, job_type: str, *, attempts: int, why: str) -> None:
        self.job_id = job_id
        self.job_type = job_type
        self.attempts = attempts
        super().__init__(
            f"SQS could not be reached, so the {job_type!r} {job_id} ran in place. It was given up "
            f"after {attempts} attempt(s): {why}. It is in no queue, so nothing will run it again"
        )
