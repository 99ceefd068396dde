"""Strange inputs of schedules: each is sent as what it says, or refused by the one error for it.

Whoever may create a schedule, or change one, writes what the bridge is invoked with, and whoever
may invoke the sweep writes its plan. Lambda keeps an input that is refused; any other error would
be a fault of ours.
"""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.core.topology import MAX_MESSAGE_BYTES
from headgate.jobs.deployment.sweep_plan import plan_input, read_plan, sweep_plan
from headgate.jobs.errors import MessageError, MessageUnreadable, TransportError
from headgate.jobs.messages.envelope import parse
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.inputs import read_input
from headgate.jobs.schedules.routes import Routes
from headgate.jobs.testing import MemorySqs, MemoryTable, VirtualClock
from headgate.lambdas import bridge
from tests.hostile.examples import hostile
from tests.support import odd_values
from tests.support.lambda_context import lambda_context
from tests.unit.lambdas.test_bridge_input import APP, AT, INPUTS

ODD: st.SearchStrategy[Any] = st.one_of(
    odd_values.ODD,
    st.sampled_from(["", "a b", "\ud800", "x" * 200, -1e300, 10**40, b"", {"a": []}]),
    st.sampled_from(["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "1969-12-31"]),
    st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
    st.integers(4300, 4400).map(lambda digits: 10**digits),
)
JSON = st.recursive(
    ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@st.composite
def changed(draw: st.DrawFn, originals: list[dict[str, Any]]) -> Any:
    """Draw a valid input with some of its values replaced, and fields that it never had."""
    event = json.loads(json.dumps(draw(st.sampled_from(originals))))
    for _ in range(draw(st.integers(1, 3))):
        place = event
        while True:
            key = draw(st.sampled_from(sorted(place)) | st.text(max_size=3))
            inner = place.get(key)
            if not isinstance(inner, dict) or not inner or draw(st.booleans()):
                break
            place = inner
        place[key] = copy.deepcopy(draw(JSON))  # the next change may be within it
    return event


@hostile
@given(changed(INPUTS) | JSON)
def test_whatever_the_input_is_it_is_sent_or_unreadable(event: Any) -> None:
    clock = VirtualClock(AT)
    sqs, table = MemorySqs(clock), MemoryTable(clock)
    sqs.provision(APP.topology)
    sending = Bridge(sqs.sync, table.sync, lambda: AT, routes=Routes.of(APP))
    context = lambda_context()
    # Its type may not run from that queue, or SQS refuse the message: Lambda keeps the input.
    with (
        patch.object(bridge, "_bridge", lambda: sending),
        suppress(MessageError, TransportError),
    ):
        bridge.handler(event, context)
    _check_sent(sqs, event)


def _check_sent(sqs: MemorySqs, event: Any) -> None:
    """Check that what was sent is what the input says, and nothing else was."""
    sent = [message for spec in APP.topology.queues for message in sqs.messages(spec.name)]
    assert len(sent) <= 1
    for message in sent:
        assert message.body == read_input(event).message(AT).body
        assert len(message.body.encode()) <= MAX_MESSAGE_BYTES
        if "body" not in event:
            parse(message.body)


@hostile
@given(changed(INPUTS) | JSON)
def test_an_error_about_an_input_never_has_its_values(event: Any) -> None:
    secret = "4111-1111-1111-1111"  # noqa: S105 - of no account
    if isinstance(event, dict):
        event = {name: secret if isinstance(value, str) else value for name, value in event.items()}
    refused: Exception | None = None
    try:
        read_input(event)
    except MessageUnreadable as error:
        refused = error
    assert refused is None or secret not in str(refused)
    assert refused is None or refused.__cause__ is refused.__context__ is None


@hostile
@given(changed([plan_input(sweep_plan(APP, has_bridge=True))]) | JSON)
def test_whatever_the_sweeps_plan_is_it_is_read_or_unreadable(event: Any) -> None:
    with suppress(MessageUnreadable):
        read_plan(event)
