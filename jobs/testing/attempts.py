"""Running one attempt of a job that is in no queue, and calling a hook."""

from __future__ import annotations

from asyncio import to_thread
from inspect import isawaitable
from typing import Any

from headgate.jobs.core.events import Event
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.definitions.handlers.hooks import Hook, is_async
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Outcome
from headgate.jobs.execution.run import Run
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.testing.company import all_of


async def call_hook(hook: Hook, event: Event) -> None:
    """Call a hook as a worker does, plain functions in a thread; raise what it raises."""
    result, error = (hook(event), None) if is_async(hook) else await to_thread(_ended, hook, event)
    if error is not None:
        raise error
    if isawaitable(result):
        await result


def _ended(hook: Hook, event: Event) -> tuple[Any, BaseException | None]:
    """Return what a hook returns, and what it raises: a future can't carry each exception."""
    try:
        return hook(event), None
    except BaseException as error:  # noqa: BLE001 - raised again by the one that calls this
        return None, error


async def attempted(executor: Executor, submission: Submission, number: int) -> Outcome:
    """Run the attempt of that number; return its outcome without acting on it.

    Raises:
        ValueError: the job has no such attempt.
    """
    run = Run(executor, _delivery(submission, number, executor.means.clock.monotonic()))
    most = run.job.attempt.max_attempts if run.job is not None else number
    if not 1 <= number <= most:
        raise ValueError(f"attempt must lie between 1 and {most}, got {number}")
    [verdict] = await all_of([run], Run.verdict)
    return verdict.outcome


def _delivery(submission: Submission, number: int, received_at: float) -> Delivery:
    """Return the first delivery of a message whose job has made the attempts before that one."""
    used = max(0, number - 1)
    message = ReceivedMessage(
        message_id=submission.id,
        receipt="",
        body=submission.envelope.model_copy(update={"attempts_used": used}).to_body(),
        receive_count=1,
        sent_at=submission.envelope.submitted_at,
        attributes=submission.message.attributes,
        group=submission.message.group,
    )
    return Delivery(message=message, queue=submission.queue, received_at=received_at)
