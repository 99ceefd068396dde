"""The steps of `headgate verify`, in the order in which it makes them."""

from __future__ import annotations

from datetime import timedelta

from headgate.ops.verify.steps import failing, platform, submitting, timed
from headgate.ops.verify.steps.step import SiteNeed, VerifyStep

_MINUTE = timedelta(minutes=1)

STEPS: tuple[VerifyStep, ...] = (
    VerifyStep(
        name="priorities",
        expected="a job of each priority completes",
        run=submitting.every_priority,
    ),
    VerifyStep(
        name="delay",
        expected="a job delayed by 5 s starts no earlier",
        run=timed.short_delay,
    ),
    VerifyStep(
        name="large payload",
        expected="a payload of 400,000 characters goes through the bucket",
        run=submitting.large_payload,
    ),
    VerifyStep(
        name="unique",
        expected="two equal submissions are one job",
        run=submitting.unique,
    ),
    VerifyStep(
        name="once",
        expected="a message that is sent twice runs once",
        run=submitting.once,
    ),
    VerifyStep(
        name="retry",
        expected="a job that fails twice completes with its third attempt, after its backoff",
        run=failing.retry,
    ),
    VerifyStep(
        name="dead letter",
        expected="a job that is given up is a dead letter with its reason, and completes once it "
        "is replayed with another payload",
        run=failing.dead_letter,
    ),
    VerifyStep(
        name="cancel",
        expected="a job that is cancelled while it waits never runs",
        run=failing.cancel,
    ),
    VerifyStep(
        name="pause",
        expected="a paused type's job waits, and completes once the type is resumed",
        run=failing.pause,
    ),
    VerifyStep(
        name="function",
        expected="a Lambda function runs a job",
        run=platform.in_function,
        needs=SiteNeed.FUNCTION,
    ),
    VerifyStep(
        name="long delay on FIFO",
        expected="a delay on a FIFO queue, which a schedule holds, ends within its minute",
        run=timed.held_delay,
        within=5 * _MINUTE,
    ),
    VerifyStep(
        name="schedule",
        expected="a schedule made at run time fires once",
        run=timed.scheduled_once,
        within=5 * _MINUTE,
    ),
    VerifyStep(
        name="recurring schedule",
        expected="a declared schedule of each minute fires twice",
        run=timed.recurring,
        within=5 * _MINUTE,
    ),
    VerifyStep(
        name="stop of a worker",
        expected="a job whose worker is stopped completes elsewhere",
        run=platform.stopped_worker,
        within=8 * _MINUTE,
    ),
    VerifyStep(
        name="alarms",
        expected="each queue has its alarms",
        run=platform.alarms,
        needs=SiteNeed.ALARMS,
    ),
    VerifyStep(
        name="permissions",
        expected="the workers' role is denied what it never needs",
        run=platform.permissions,
        needs=SiteNeed.ROLES,
    ),
    VerifyStep(
        name="long delay",
        expected="a job delayed by 16 minutes, which a schedule holds, starts in its second",
        run=timed.long_delay,
        within=20 * _MINUTE,
        at_least=17 * _MINUTE,
    ),
)
"""All of them."""
