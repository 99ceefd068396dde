"""``fallback="inline"``: jobs run in the submitting process while SQS can't be reached.

This lacks the guarantees of a worker: nothing hides or keeps the job, it goes to no dead-letter
queue, no limit applies to it, no hook is called and nothing is recorded. A job that fails is
retried by its type's policy as long as the waits of the whole call stay within `PATIENCE_S`, since
the caller is waiting.

Jobs that a job submits while it runs in place run after it, in the same call: a chain of jobs that
submit one another takes no more threads and no deeper stack than one job. A call begins jobs for
`LONGEST_S`; the rest is refused, as it would be without a fallback.

Three kinds of jobs do not run in place: a job with a delay, which is not due; one with
``isolation="process"``, which might kill the submitter; and one with ``once=True``, which can't be
claimed here. Their submission fails as it would without a fallback.
"""
