"""OpenTelemetry spans around handlers, by the semantic conventions for messaging.

A job's span is linked to the span that submitted it instead of being its child: a queue lies
between the two, and a job may run days later, and several times.
https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from headgate.jobs.errors import LibraryMissing
from headgate.jobs.execution.delivery import Delivery, Job
from headgate.jobs.retry.signals import Discard, RetryLater
from headgate.jobs.values.redaction import NOTHING, Redaction

try:
    from opentelemetry.propagate import extract
    from opentelemetry.trace import (
        Link,
        SpanKind,
        Status,
        StatusCode,
        TracerProvider,
        get_current_span,
        get_tracer,
    )
except ImportError as error:
    raise LibraryMissing(
        "tracing", "OpenTelemetry", "headgate[otel]", then="and configure its SDK"
    ) from error

_NO_FAULT = (RetryLater, Discard)
"""Exceptions by which a handler controls its job, and which are no errors."""


class Tracing:
    """Opens a span around each call of a handler.

    Pass `open_span` to `jobs.execution.calling.means.Means`.

    Args:
        provider: the provider of the tracer; None takes the process's own.
        redaction: redacts the texts of exceptions.
    """

    def __init__(
        self, provider: TracerProvider | None = None, *, redaction: Redaction = NOTHING
    ) -> None:
        self._redaction = redaction
        self._tracer = get_tracer("headgate", tracer_provider=provider)

    @contextmanager
    def open_span(
        self, job: Job, delivery: Delivery, secrets: Callable[[], frozenset[str]]
    ) -> Iterator[None]:
        """Open a span for one attempt, current while the handler runs.

        Args:
            job: the job.
            delivery: its delivery.
            secrets: returns what the text of an exception must not show.
        """
        span = self._tracer.start_as_current_span(
            f"process {delivery.queue.name}",
            kind=SpanKind.CONSUMER,
            links=_links(job),
            attributes={
                "messaging.system": "aws_sqs",
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.destination.name": delivery.queue.name,
                "messaging.message.id": delivery.message.message_id,
                "messaging.message.body.size": len(delivery.message.body.encode()),
                "headgate.job.id": job.attempt.job_id,
                "headgate.job.type": job.type.name,
                "headgate.job.attempt": job.attempt.number,
            },
            record_exception=False,
            set_status_on_exception=False,
        )
        with span as current:
            try:
                yield
            except _NO_FAULT:
                raise
            except Exception as error:
                hidden = secrets()
                texts = {
                    "exception.message": self._redaction.text(error, hidden),
                    "exception.stacktrace": self._redaction.traceback(error, hidden),
                }
                current.record_exception(error, attributes=texts)
                current.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise


def _links(job: Job) -> Sequence[Link]:
    if job.envelope.trace is None:
        return ()
    context = extract({"traceparent": job.envelope.trace})
    found = get_current_span(context).get_span_context()
    return (Link(found),) if found.is_valid else ()
