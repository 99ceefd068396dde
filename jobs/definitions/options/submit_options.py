"""Options of a single submission, in place of its job type's."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypedDict

from headgate.jobs.core.retention import Keep
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.core.topology import Priority, PriorityName
from headgate.jobs.definitions.options.uniqueness import Unique
from headgate.jobs.retry.backoff import Backoff
from headgate.jobs.values.durations import Duration


class SubmitOptions(TypedDict, total=False):
    """Options of a single submission, in place of its job type's; None stands for not given.

    For functions that submit on behalf of others:

        def remind(client: Client, **options: Unpack[SubmitOptions]) -> None:
            client.submit(reminder, **options)
    """

    delay: Duration | None
    """Minimum time from now until the job runs, in seconds or as a timedelta. Over 15 minutes, and
    on a FIFO queue, a one-time schedule of EventBridge Scheduler holds the job meanwhile, which AWS
    bills as a request of its own."""
    at: datetime | None
    """The earliest time to run the job; aware. A past time means now."""
    priority: Priority | PriorityName | None
    unique: Unique | Literal[False] | None
    """The uniqueness of this job; False for a job that is not unique though its type is."""
    tenant: str | Tenant | None
    """The tenant of the job; SQS's fair queues keep one tenant's flood from delaying the others."""
    group: str | None
    """On a FIFO queue, the group whose jobs run one at a time and in order. Defaults to the result
    of the type's ``group_by`` or, without one, to the tenant."""
    max_attempts: int | None
    """Number of attempts, the first included."""
    backoff: Backoff | None
    """The delays between its attempts; any `Backoff` but a custom one, which is code."""
    timeout: Duration | None
    """The timeout of one attempt, in seconds or as a timedelta."""
    expires: Duration | datetime | None
    """The time within which the job has to start, in seconds or as a timedelta from when it is due,
    or an aware time. A job that no worker has started by then is dropped without a run."""
    keep: Keep | Duration | None
    """The retention of its records: a `Keep` without ``last``, or the time for the completed job
    and its result alone, in seconds or as a timedelta; 0 keeps nothing if it simply completes."""
