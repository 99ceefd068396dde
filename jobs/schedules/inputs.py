"""The bridge's inputs: what schedules and event rules hand over, as one tagged union.

    input        made by               its sending is named by
    Firing       a recurring schedule  the scheduled time; the schedule's ARN is in the job's id
    Occurrence   an event rule         the event
    DelayedJob   a one-time schedule   the time it is due, and the token of the hand-over

Inputs are stored in AWS for as long as their schedules and rules are. They have no field in common
that says which kind each is: `tag_of` tells by those that only one kind has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Discriminator, Tag, TypeAdapter, ValidationError

from headgate.jobs.definitions.event_rules.event_rule import Occurrence
from headgate.jobs.errors import MessageUnreadable
from headgate.jobs.schedules.delayed_job import DelayedJob
from headgate.jobs.schedules.firing import Firing
from headgate.jobs.values.faults import faults_in
from headgate.jobs.values.texts import kind_of

FIRING, OCCURRENCE, DELAYED = "firing", "occurrence", "delayed"
"""The tags."""

_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)

_SOURCES = {
    FIRING: (
        "schedule",
        (
            "Schedules and the bridge are deployed together: run `cdk deploy`, or fix the input of "
            "a schedule made by hand"
        ),
    ),
    OCCURRENCE: ("event rule", "Rules and the bridge are deployed together: run `cdk deploy`"),
    DELAYED: (
        "one-time schedule",
        "Clients and workers make these schedules: submit the job again if one was changed by hand",
    ),
}
"""By tag, what makes such an input, and what to do about an unreadable one."""


def tag_of(event: Mapping[str, Any]) -> str:
    """Return the tag of an input."""
    if "delayed_until" in event:
        return DELAYED
    return OCCURRENCE if event.get("kind") == "event" else FIRING


Input = Firing | Occurrence | DelayedJob
"""An input of the bridge. Each has a ``job_id``, a ``type``, a ``queue_name`` and a ``message``;
``sending`` names the one sending that it stands for, and ``counts`` is False if nothing is to be
sent."""

_TAGGED: TypeAdapter[Input] = TypeAdapter(
    Annotated[
        Annotated[Firing, Tag(FIRING)]
        | Annotated[Occurrence, Tag(OCCURRENCE)]
        | Annotated[DelayedJob, Tag(DELAYED)],
        Discriminator(tag_of),
    ],
    config=ConfigDict(defer_build=True),
)


def read_input(event: object) -> Input:
    """Read what a schedule or an event rule handed over.

    Whatever the event, an input that is returned can be sent.

    Raises:
        MessageUnreadable: it is neither's; the message names the fields, never their values.
    """
    given = parse_input(_json_object(event))
    _prove_sendable(given)
    return given


def parse_input(event: Mapping[str, Any]) -> Input:
    """Read an input, which need not be one that can be sent.

    Raises:
        MessageUnreadable: as for `read_input`.
    """
    try:
        return _TAGGED.validate_python(event)
    except ValidationError as error:
        faults = faults_in(error, "input", beneath=1)
    # Not from pydantic's error, which quotes the values.
    source, advice = _SOURCES[tag_of(event)]
    raise MessageUnreadable(f"the input is not that of a Headgate {source}: {faults}. {advice}")


def _json_object(event: object) -> Mapping[str, Any]:
    """Check that an input is an object that JSON can hold as UTF-8.

    Lambda reads more than that, such as ``1e999`` and lone surrogates.

    Raises:
        MessageUnreadable: it is not.
    """
    if not isinstance(event, Mapping):
        raise MessageUnreadable(f"the input is not a JSON object but {kind_of(event)}")
    try:
        json.dumps(event, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        kind = type(error).__name__
    else:
        return event
    # Not from the error, which quotes the values.
    raise MessageUnreadable(
        f"JSON can't hold the input ({kind}): a number in it is too large, it has a lone "
        "surrogate, or it is nested too deeply"
    )


def _prove_sendable(given: Input) -> None:
    """Derive everything from an input once, before anything is claimed or sent.

    Raises:
        MessageUnreadable: something of it can't be made.
    """
    try:
        _ = given.counts, given.job_id, given.sending, given.message(_ANY_TIME)
    except (ValueError, ArithmeticError, TypeError) as error:
        kind = type(error).__name__
    else:
        return
    # Not from the error, which quotes the values.
    raise MessageUnreadable(f"the input makes no message: {kind}")
