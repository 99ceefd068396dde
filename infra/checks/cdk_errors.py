"""CDK's errors, in words for users."""

from __future__ import annotations

import re

_FROM_JSII = "@jsii/kernel.RuntimeError: "
_TOO_MANY = re.compile(r"(\d+) is greater than allowed maximum of (\d+)")  # of a stack's resources
_FEWER = (
    "A queue takes about nine of them, with its dead-letter queue, their policies and its alarms, "
    "and a worker group about fifteen, with its roles, its scaling and its alarms: declare fewer "
    "priorities (app.queue(..., priorities=[...])) or fewer queue groups, let one worker group "
    'serve several of them ("queues": [...]), or have no alarms ("alarms": null in the deployment)'
)


def in_words(error: Exception) -> str:
    """Return an error of CDK's without what jsii adds, and with what to do."""
    text = said_by_cdk(error)
    if "ValidationFailed" in text:
        return "cdk-nag refuses the stack"  # CDK has printed the violated rules
    return f"{text}. {_FEWER}" if _TOO_MANY.search(text) else text


def said_by_cdk(error: Exception) -> str:
    """Return the text of an error of CDK's, without what jsii adds."""
    before, _, after = str(error).partition(_FROM_JSII)
    return (after or before).strip()


def resources_over(error: Exception) -> int:
    """Return the number of resources that a stack has too many, if that is the error; else 0."""
    counted = _TOO_MANY.search(said_by_cdk(error))
    return int(counted[1]) - int(counted[2]) if counted is not None else 0
