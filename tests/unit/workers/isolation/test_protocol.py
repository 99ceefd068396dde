"""The protocol between a worker and its child processes."""

from __future__ import annotations

import pytest

from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.workers.isolation.protocol import message_fields


@pytest.mark.parametrize("measured", [True, False])
def test_a_message_that_a_child_submits_arrives_as_it_was(measured: bool) -> None:
    message = OutgoingMessage(
        body="{}", attributes={"JobType": "a"}, delay_s=5, group="g", deduplication_id="d"
    )
    assert not measured or message.size
    assert OutgoingMessage(**message_fields(message)) == message
