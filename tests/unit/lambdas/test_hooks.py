"""Hooks and spans in a Lambda function, through the deployed consumer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headgate import App, DoNotRetry
from headgate.jobs.core.events import (
    HookFailed,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobQuarantined,
)
from headgate.lambdas.hooks import LONGEST_S
from tests.unit.lambdas.test_consume import Function, Note


def _app() -> App:
    app = App("shop")
    mail = app.queue("mail", priorities=["normal"])

    @mail.job("send")
    async def send(note: Note) -> None:
        if note.text == "dead":
            raise DoNotRetry("no")

    return app


Deploy = Callable[[App], Function]


@pytest.fixture
def deployed() -> Iterator[Deploy]:
    """Deploy an app's function; it is closed at the end."""
    functions: list[Function] = []

    def deploy(app: App) -> Function:
        functions.append(Function(app))
        return functions[-1]

    yield deploy
    for function in functions:
        function.consumer.close()


def test_hooks_have_been_called_when_the_function_answers(deployed: Deploy) -> None:
    app, called = _app(), list[tuple[str, bool]]()

    @app.on_complete
    async def in_loop(event: JobCompleted) -> None:
        await asyncio.sleep(0)
        called.append((event.name, threading.current_thread() is threading.main_thread()))

    @app.on_dead
    def in_thread(event: JobDeadLettered | JobQuarantined) -> None:
        called.append((event.name, threading.current_thread() is threading.main_thread()))

    function = deployed(app)
    for _ in range(2):  # in the same process, which Lambda keeps
        function.submit(app.types["send"], "done", "dead")
        assert function.invoke()["batchItemFailures"] == []
        assert sorted(called) == [("job.completed", True), ("job.dead_lettered", False)]
        called.clear()


def test_a_hook_that_fails_fails_no_job_and_is_told(deployed: Deploy) -> None:
    app = _app()

    @app.on_failed
    async def broken(_event: JobFailed) -> None:
        raise ValueError("mine")

    function = deployed(app)
    function.submit(app.types["send"], "dead")
    assert function.invoke()["batchItemFailures"] == []
    [failed] = [event for event in function.events if isinstance(event, HookFailed)]
    assert failed.error == "ValueError: mine"


def test_a_hook_that_takes_long_does_not_hold_the_answer_and_goes_on_in_the_next_invocation(
    deployed: Deploy, caplog: pytest.LogCaptureFixture
) -> None:
    app, ended = _app(), list[str]()

    @app.on_complete
    async def slow(event: JobCompleted) -> None:
        await asyncio.sleep(LONGEST_S + 1)
        ended.append(event.job_id)

    function = deployed(app)
    function.submit(app.types["send"], "done")
    context = function.travel(60)
    assert function.invoke(context)["batchItemFailures"] == []
    assert context.get_remaining_time_in_millis() >= (60 - LONGEST_S - 1) * 1000
    assert ended == []
    assert "hooks still run" in caplog.text
    function.submit(app.types["send"], "dead")
    function.invoke(context)
    assert len(ended) == 1


def test_a_handler_runs_in_a_span_linked_to_its_submitter_s(
    deployed: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    app = _app()
    function = deployed(app)
    with provider.get_tracer("test").start_as_current_span("request") as request:
        function.submit(app.types["send"], "done")
    function.invoke()
    [span] = [each for each in exporter.get_finished_spans() if each.name.startswith("process")]
    assert [link.context.span_id for link in span.links] == [request.get_span_context().span_id]
