"""Spans around handlers, linked to the job's submitter."""

from __future__ import annotations

from datetime import timedelta

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from headgate import App, JobContext, Retry, RetryLater
from headgate.jobs.definitions.handlers.resources import OpenResources
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.tracing import Tracing
from headgate.jobs.messages.envelope import parse
from headgate.jobs.submission.prepare import prepare_child
from headgate.jobs.testing import Harness
from tests.unit.workers.rig import Note


class _Traced(Harness):
    """A harness whose handlers run in spans, as in a worker."""

    def __init__(self, app: App, tracing: Tracing) -> None:
        super().__init__(app)
        self._tracing = tracing

    def _executor(self, resources: OpenResources) -> Executor:
        executor = super()._executor(resources)
        executor.means.open_span = self._tracing.open_span
        return executor


class Traced:
    """A harness whose handlers run in spans, and those spans."""

    def __init__(self, app: App) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.jobs = _Traced(app, Tracing(self.provider, redaction=app.redaction))
        self.tracer = self.provider.get_tracer("test")

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """The first span of each name."""
        return {span.name: span for span in reversed(self._exporter.get_finished_spans())}


QUEUE = "shop-jobs-normal"


def test_an_attempt_is_a_span_by_the_conventions_linked_to_the_submitter_s() -> None:
    app = App("shop")

    @app.job("send")
    def send(_note: Note, ctx: JobContext) -> None: ...

    traced = Traced(app)
    with traced.tracer.start_as_current_span("request") as request:
        handle = traced.jobs.client.submit(send, Note())
    [message] = traced.jobs.sqs.messages(QUEUE)
    context = request.get_span_context()
    carried = parse(message.body).trace
    assert carried is not None
    assert carried.startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")

    traced.jobs.drain()
    span = traced.spans[f"process {QUEUE}"]
    assert span.kind is trace.SpanKind.CONSUMER
    assert [link.context.span_id for link in span.links] == [context.span_id]
    assert span.attributes is not None
    assert span.attributes["messaging.system"] == "aws_sqs"
    assert span.attributes["messaging.destination.name"] == QUEUE
    assert span.attributes["headgate.job.id"] == handle.id
    assert span.status.status_code is StatusCode.UNSET


def test_spans_that_a_handler_opens_are_children_of_its_attempt_in_a_thread_too() -> None:
    app = App("shop")

    @app.job("send")
    def send(_note: Note) -> None:
        with traced.tracer.start_as_current_span("query"):
            pass

    traced = Traced(app)
    traced.jobs.client.submit(send, Note())
    traced.jobs.drain()
    query, attempt = traced.spans["query"], traced.spans[f"process {QUEUE}"]
    assert query.parent is not None
    assert attempt.context is not None
    assert query.parent.span_id == attempt.context.span_id


def test_a_handlers_submission_belongs_to_its_own_span_or_to_its_jobs_trace() -> None:
    app = App("shop")
    send = app.define("send", Note)
    traced = Traced(app)
    with traced.tracer.start_as_current_span("request"):
        traced.jobs.client.submit(send, Note())
    [message] = traced.jobs.sqs.messages(QUEUE)
    parent, now = parse(message.body), traced.jobs.clock.now()
    with traced.tracer.start_as_current_span("query") as query:
        inside = prepare_child(app, parent, send, Note(), {}, now)
    outside = prepare_child(app, parent, send, Note(), {}, now)
    assert inside.envelope.trace is not None
    assert f"{query.get_span_context().span_id:016x}" in inside.envelope.trace
    assert outside.envelope.trace == parent.trace
    assert inside.envelope.parent == outside.envelope.parent == parent.id


def test_a_job_that_a_handler_submits_belongs_to_its_attempt_s_trace() -> None:
    app = App("shop")
    child = app.define("child", Note)
    bodies: list[str] = []

    @child.handler
    def _(_note: Note) -> None: ...

    @app.job("parent")
    def parent(_note: Note, ctx: JobContext) -> None:
        _submitted = ctx.submit(child, Note())
        bodies.extend(message.body for message in traced.jobs.sqs.messages(QUEUE))

    traced = Traced(app)
    traced.jobs.client.submit(parent, Note())
    traced.jobs.drain()
    [body] = [body for body in bodies if parse(body).type == "child"]
    attempt = traced.spans[f"process {QUEUE}"].context
    assert attempt is not None
    assert (parse(body).trace or "").split("-")[1:3] == [
        f"{attempt.trace_id:032x}",
        f"{attempt.span_id:016x}",
    ]


def test_a_failure_is_recorded_and_a_deferral_is_none() -> None:
    app = App("shop")

    @app.job("fail", retry=Retry(max_attempts=1))
    def fail(_note: Note) -> None:
        raise ConnectionError("down")

    failed = Traced(app)
    failed.jobs.client.submit(fail, Note())
    failed.jobs.drain()
    span = failed.spans[f"process {QUEUE}"]
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]

    later, runs = App("shop"), list[int]()

    @later.job("later")
    def put_off(_note: Note) -> None:
        if not runs:
            runs.append(1)
            raise RetryLater(timedelta(seconds=5))

    deferred = Traced(later)
    deferred.jobs.client.submit(put_off, Note())
    deferred.jobs.drain()
    assert deferred.spans[f"process {QUEUE}"].status.status_code is StatusCode.UNSET


def test_a_span_has_an_errors_text_as_the_app_redacts_it() -> None:
    app = App("shop", redact=[r"\d{4}-\d{4}"])

    @app.job("send", retry=Retry(max_attempts=1))
    def send(_note: Note) -> None:
        raise ValueError("card 4111-1111")

    traced = Traced(app)
    traced.jobs.client.submit(send, Note())
    traced.jobs.drain()
    [event] = traced.spans[f"process {QUEUE}"].events
    assert event.attributes is not None
    assert event.attributes["exception.message"] == "card [redacted]"
    assert "4111" not in repr(event.attributes)
