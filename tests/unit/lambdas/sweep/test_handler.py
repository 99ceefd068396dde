"""The sweep's function: its input, answer, logs and counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from pydantic import BaseModel

from headgate import App, Priority, Replay
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.deployment.metric_names import (
    DEAD_LETTERS,
    LETTERS_KEPT,
    LETTERS_REPLAYED,
    NAMESPACE,
    OF_DEAD_LETTER,
    OF_TYPE,
)
from headgate.jobs.deployment.sweep_plan import TIMEOUT, plan_input, sweep_plan
from headgate.jobs.errors import ConfigurationError, MessageUnreadable, ServiceUnavailable
from headgate.jobs.testing import MemorySqs, MemoryStore, MemoryTable, MemoryTopic
from headgate.jobs.testing.memory.secrets import MemorySecrets
from headgate.lambdas.sweep import handler as sweep
from headgate.lambdas.sweep.memory import SweepMemory
from tests.support.lambda_context import lambda_context
from tests.support.loggers import restored

DOWN = ServiceUnavailable("it is down")
JOB = "019b7ca4-7a2e-7000-8000-000000000001"


class Order(BaseModel):
    card: str = ""


class OnLambda:
    """The function's own environment, with AWS in memory."""

    def __init__(self) -> None:
        self.app = App("shop", stage="test")
        self.app.define("send-email", Order, priority=Priority.HIGH)
        self.clock = SystemClock()
        self.sqs, self.table = MemorySqs(self.clock), MemoryTable(self.clock)
        self.topic, self.tickets = MemoryTopic(), MemoryTopic()
        self.sqs.provision(self.app.topology)
        self.aws = sweep._Aws(
            queues=self.sqs.sync,
            table=self.table.sync,
            store=MemoryStore().sync,
            topic=self.topic,
            tickets=self.tickets,
            secrets=MemorySecrets().sync,
        )

    def invoke(self) -> dict[str, int]:
        plan = sweep_plan(self.app, has_bridge=False)
        return sweep.handler(plan_input(plan), lambda_context())

    def park(self, **changed: str) -> None:
        name = self.app.topology.queue("jobs", Priority.HIGH).dlq_name
        told = {"JobId": JOB, "JobType": "send-email", "Reason": "do-not-retry"} | changed
        self.sqs.sync.send(name, [OutgoingMessage(body="{}", attributes=told)])


@pytest.fixture
def on_lambda(monkeypatch: pytest.MonkeyPatch) -> Iterator[OnLambda]:
    found = OnLambda()
    monkeypatch.setattr(sweep, "_aws", lambda: found.aws)
    sweep._lines.cache_clear()
    with restored(bare=True):
        yield found
    sweep._lines.cache_clear()


def test_what_is_new_is_answered_logged_and_counted(
    on_lambda: OnLambda, capsys: pytest.CaptureFixture[str]
) -> None:
    on_lambda.park()
    assert on_lambda.invoke() == {"looked_at": 1, "new": 1, "saved": 0, "told": 1}
    printed = capsys.readouterr()

    metric, kept = map(json.loads, printed.out.splitlines())
    assert (kept["service"], kept[LETTERS_KEPT]) == ("shop-test", [1.0])
    [described] = metric["_aws"]["CloudWatchMetrics"]
    assert described["Namespace"] == NAMESPACE
    assert set(described["Dimensions"][0]) == OF_DEAD_LETTER
    assert metric[DEAD_LETTERS] == [1.0]
    dimensions = {name: metric[name] for name in OF_DEAD_LETTER}
    assert dimensions == {
        "service": "shop-test",
        "queue": "jobs",
        "type": "send-email",
        "reason": "do-not-retry",
    }

    found, done = map(json.loads, printed.err.splitlines())
    assert found["message"] == "dead letter"
    assert (found["job_id"], found["reason"]) == (JOB, "do-not-retry")
    assert done["message"] == "swept"
    for line in (found, done):
        assert line["function_request_id"] == "request-1"


def test_what_a_policy_sends_back_is_answered_logged_and_counted(
    on_lambda: OnLambda, capsys: pytest.CaptureFixture[str]
) -> None:
    on_lambda.app.replay = Replay()
    died_at = on_lambda.clock.now() - timedelta(hours=2)
    on_lambda.park(Reason="attempts-exhausted", FailedAt=died_at.isoformat())
    assert on_lambda.invoke()["replayed"] == 0
    capsys.readouterr()
    assert on_lambda.invoke()["replayed"] == 1
    printed = capsys.readouterr()
    metric, kept = map(json.loads, printed.out.splitlines())
    assert metric[LETTERS_REPLAYED] == [1.0]
    assert kept[LETTERS_KEPT] == [0.0]
    assert {name: metric[name] for name in OF_TYPE} == {
        "service": "shop-test",
        "queue": "jobs",
        "type": "send-email",
    }
    replayed, done = map(json.loads, printed.err.splitlines())
    assert replayed["message"] == "dead letters sent back by policy"
    assert (replayed["sent"], replayed["refused"], done["replayed"]) == (1, 0, 1)
    [message] = on_lambda.sqs.messages("shop-test-jobs-high")
    assert message.attributes["JobId"] == JOB


def test_nothing_is_counted_where_nothing_is_new(
    on_lambda: OnLambda, capsys: pytest.CaptureFixture[str]
) -> None:
    on_lambda.park()
    on_lambda.invoke()
    capsys.readouterr()
    assert on_lambda.invoke() == {"looked_at": 1, "new": 0, "saved": 0, "told": 0}
    [kept] = map(json.loads, capsys.readouterr().out.splitlines())
    assert DEAD_LETTERS not in kept
    assert kept[LETTERS_KEPT] == [1.0]


def sums(capsys: pytest.CaptureFixture[str]) -> dict[str, list[float]]:
    """Return what was written of letters kept and sent back."""
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    names = (LETTERS_KEPT, LETTERS_REPLAYED)
    return {name: line[name] for line in lines for name in names if name in line}


def test_what_is_kept_and_sent_back_is_counted_though_nobody_can_be_told(
    on_lambda: OnLambda, capsys: pytest.CaptureFixture[str]
) -> None:
    on_lambda.app.replay = Replay()
    died_at = on_lambda.clock.now() - timedelta(hours=2)
    on_lambda.park(Reason="attempts-exhausted", FailedAt=died_at.isoformat())
    on_lambda.invoke()
    capsys.readouterr()
    on_lambda.app.define("capture", Order, priority=Priority.HIGH, alert_at_once=True)
    on_lambda.park(JobType="capture")
    on_lambda.park()
    on_lambda.topic.fail(DOWN)
    with pytest.raises(ServiceUnavailable):
        on_lambda.invoke()
    assert sums(capsys) == {LETTERS_KEPT: [2.0], LETTERS_REPLAYED: [1.0]}


def test_a_queue_that_cannot_be_swept_leaves_the_others_counted_as_kept(
    on_lambda: OnLambda, capsys: pytest.CaptureFixture[str]
) -> None:
    on_lambda.park()
    on_lambda.sqs.faults.raise_on("depth", DOWN, queue=on_lambda.app.topology.quarantine_name)
    with pytest.raises(ServiceUnavailable):
        on_lambda.invoke()
    assert sums(capsys) == {LETTERS_KEPT: [1.0]}


def test_nothing_is_said_to_be_kept_of_a_queue_that_cannot_be_swept(
    on_lambda: OnLambda, capsys: pytest.CaptureFixture[str]
) -> None:
    on_lambda.park()
    queue = on_lambda.app.topology.queue("jobs", Priority.HIGH).dlq_name
    on_lambda.sqs.faults.raise_on("depth", DOWN, queue=queue)
    with pytest.raises(ServiceUnavailable):
        on_lambda.invoke()
    assert sums(capsys) == {}, "or an alarm would take none for their number"


def test_a_sweep_beside_another_answers_nothing(on_lambda: OnLambda) -> None:
    on_lambda.park()
    with SweepMemory(on_lambda.table.sync, on_lambda.clock).leased(TIMEOUT):
        assert on_lambda.invoke() == {}
    assert on_lambda.topic.published == on_lambda.tickets.published == []


@pytest.mark.usefixtures("on_lambda")
def test_an_input_that_is_no_plan_is_refused_by_the_names_of_its_fields() -> None:
    with pytest.raises(MessageUnreadable, match="queues: Field required"):
        sweep.handler({"app": "shop"}, lambda_context())


def test_a_variable_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (sweep.TABLE, sweep.BUCKET, sweep.TOPIC):
        monkeypatch.delenv(variable, raising=False)
    sweep._aws.cache_clear()
    with pytest.raises(ConfigurationError, match="HEADGATE_BUCKET is not set"):
        sweep._aws()
