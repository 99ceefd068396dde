"""An SQS event source's records as deliveries.

https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from headgate.jobs.core.existing.arns import bare_name
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.core.topology import QueueSpec, Topology
from headgate.jobs.errors import ConfigurationError, MessageUnreadable
from headgate.jobs.execution.delivery import Delivery, deliveries_of_jobs
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.consume")

HELD_BEFORE_S = 360
"""Seconds that Lambda may have held a message before: its longest batching window, and a minute.
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"""

Line = deque[Delivery]
"""Messages that have to run one after the other: those of one FIFO group, or a single one."""


class _Attribute(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)

    string_value: str | None = None
    """The value; None for a binary attribute."""


class _System(BaseModel):
    receives: int = Field(alias="ApproximateReceiveCount", ge=1)
    sent_ms: int = Field(alias="SentTimestamp")
    first_received_ms: Any = Field(alias="ApproximateFirstReceiveTimestamp", default=None)
    group: str | None = Field(alias="MessageGroupId", default=None)


class _Record(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)

    message_id: str
    receipt_handle: str
    body: str
    attributes: _System
    message_attributes: Mapping[str, _Attribute] = {}
    event_source_arn: str = Field(alias="eventSourceARN")


def records_of(event: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the records of an invocation.

    Raises:
        ConfigurationError: the event is not from SQS.
    """
    records = event.get("Records")
    if not isinstance(records, list) or any(
        not isinstance(each, Mapping) or "messageId" not in each for each in records
    ):
        raise ConfigurationError(
            "the function was not invoked by SQS: give it an event source mapping of a queue of "
            "the app, and nothing else"
        )
    return records


def lines_of(
    records: Sequence[Mapping[str, Any]], topology: Topology, received_at: float
) -> list[Line]:
    """Return records as deliveries of their jobs, in lines; one that can't be read is logged, and
    left out.

    Raises:
        ConfigurationError: a record comes from a queue that the app doesn't have.
    """
    lines: dict[tuple[str, str], Line] = {}
    for record in records:
        try:
            delivery = delivery_of(record, topology, received_at)
        except MessageUnreadable as error:
            _log.error("%s; it stays in its queue", error)
            continue
        for job in deliveries_of_jobs(delivery):
            own = job.message.message_id
            line = (job.message.group or own) if job.queue.fifo else own
            lines.setdefault((job.queue.name, line), deque()).append(job)
    return [*lines.values()]


def delivery_of(record: Mapping[str, Any], topology: Topology, received_at: float) -> Delivery:
    """Return one record as a delivery.

    Args:
        record: a record of the event, as Lambda passes it.
        topology: the app's queues, one of which it must come from.
        received_at: the earliest time at which Lambda may have received it, on the clock's
            monotonic time, since SQS does not tell.

    Raises:
        MessageUnreadable: a field is missing or wrong; names it.
        ConfigurationError: it comes from a queue that the app doesn't have.
    """
    try:
        found = _Record.model_validate(record)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, each["loc"])) for each in error.errors())
        raise MessageUnreadable(f"a record of the event is not one of SQS's: {fields}") from None
    return Delivery(
        message=ReceivedMessage(
            message_id=found.message_id,
            receipt=found.receipt_handle,
            body=found.body,
            receive_count=found.attributes.receives,
            sent_at=datetime.fromtimestamp(found.attributes.sent_ms / 1000, UTC),
            attributes=dict(_texts(found.message_attributes)),
            group=found.attributes.group,
            first_received_ms=found.attributes.first_received_ms,
        ),
        queue=_queue(topology, found.event_source_arn),
        received_at=received_at,
    )


def _texts(attributes: Mapping[str, _Attribute]) -> Iterator[tuple[str, str]]:
    for name, attribute in attributes.items():
        if attribute.string_value is not None:
            yield name, attribute.string_value


def _queue(topology: Topology, arn: str) -> QueueSpec:
    # An ARN goes first: a queue of the app's own account may have the same name as another's.
    for name in (arn, bare_name(arn)):
        for spec in topology.queues:
            if spec.name == name:
                return spec
    raise ConfigurationError(
        f"the function gets messages of the queue {arn!r}, which the app {topology.app!r} does "
        "not have: check its event source mapping, and HEADGATE_STAGE"
    )
