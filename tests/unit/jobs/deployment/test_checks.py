"""Conflicts between separate declarations: for each rule an app that fails and one that passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from examples.assistant.app import app as assistant
from examples.shop.contracts import app as shop
from examples.travel.app import app as travel
from headgate import (
    Accepts,
    App,
    Backoff,
    Batch,
    Concurrency,
    Encryption,
    Existing,
    ExistingQueue,
    Priority,
    RateLimit,
    Retry,
    cron,
)
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.deployment.alarms.thresholds import QueueThresholds, Thresholds
from headgate.jobs.deployment.checks import size_rules
from headgate.jobs.deployment.checks.check import DEPLOYMENT_RULES, RULES, check
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.worker_group import WorkerGroup

NOW = datetime(2026, 5, 4, tzinfo=UTC)


class Note(BaseModel):
    text: str = ""


class Renamed(BaseModel):
    text: str = Field("", serialization_alias="Text")


class Rule:
    """A class that pydantic doesn't know."""


class Photo(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64")

    data: bytes


class Login(BaseModel):
    password: SecretStr


def declared(**options: Any) -> App:
    app = App("shop")
    app.define("note", Note, **options)
    return app


def holding(payload: Any = Note, returns: Any = None, **options: Any) -> App:
    app = App("shop")
    app.define("note", payload, returns=returns, **options)
    return app


def fifo(**options: Any) -> App:
    app = App("shop")
    queue = app.queue("ledger", fifo=True, priorities=[Priority.NORMAL])
    queue.define("book", Note, **options)
    return app


def in_order(**options: Any) -> App:
    """Return an app whose waits the message itself has to hold."""
    return fifo(group_by=lambda note: note.text, **options)


def accepting(*queues: str) -> App:
    """Return an app with a type that also accepts S3's messages in another type's ``uploads``."""
    app = App("shop")
    uploads = app.queue("uploads")
    uploads.define("thumbnail", Note, accepts=Accepts.s3())
    app.queue("partners")
    app.define("note", Note, accepts=Accepts.s3(), accepts_from=queues)
    return app


def grouped(*names: str) -> App:
    """Return an app with these queue groups."""
    app = App("shop")
    for name in names:
        app.queue(name).define(f"do-{name}", Note)
    return app


def event_rule(field: str) -> App:
    app = declared()
    app.event_rule(
        "noted", pattern={"source": ["x"]}, job=app.types["note"], fields={field: "$.detail.text"}
    )
    return app


def moved_in(queue: str = "orders", group: str = "mail", **fields: Any) -> App:
    """Return an app whose only queue exists."""
    found = ExistingQueue(queue=queue, **fields)
    app = App("shop", existing=Existing(queues={group: {"normal": found}}))
    app.queue("mail", priorities=[Priority.NORMAL]).define("note", Note)
    return app


def sealing(*keys: str) -> App:
    app = App("shop", encryption=Encryption(keys=keys))
    app.define("note", Note)
    return app


def hourly(limit: RateLimit) -> App:
    return declared(schedule=Schedule.rate(timedelta(minutes=1)), rate_limit=limit)


def batching(**options: Any) -> App:
    return declared(batch=Batch(10, wait=5), **options)


PASSING_AND_FAILING: dict[str, tuple[Callable[[], App], Callable[[], App]]] = {
    "custom-backoff-fails": (
        lambda: declared(retry=Retry(backoff=Backoff.custom(lambda failed: failed.attempt))),
        lambda: declared(retry=Retry(backoff=Backoff.custom(lambda failed: 1 - failed.attempt))),
    ),
    "wait-beyond-visibility": (
        lambda: declared(retry=Retry(max_attempts=2, backoff=Backoff.fixed(43_200))),
        lambda: in_order(retry=Retry(max_attempts=2, backoff=Backoff.fixed(43_201))),
    ),
    "retries-outlive-retention": (
        lambda: declared(
            retry=Retry(max_attempts=9, backoff=Backoff.fixed(42_000)),
            timeout=timedelta(minutes=10),
        ),
        lambda: in_order(
            retry=Retry(max_attempts=9, backoff=Backoff.fixed(42_000)),
            timeout=timedelta(minutes=20),
        ),
    ),
    "attempts-above-backstop": (
        lambda: declared(retry=Retry(max_attempts=990)),
        lambda: declared(retry=Retry(max_attempts=991)),
    ),
    "schedule-never-fires": (
        lambda: declared(schedule=cron("0 8 29 2 ? *")),
        lambda: declared(schedule=cron("0 8 30 2 ? *")),
    ),
    "schedule-over": (
        lambda: declared(schedule=Schedule.at(NOW + timedelta(days=1))),
        lambda: declared(schedule=Schedule.at(NOW - timedelta(days=1))),
    ),
    "rate-below-schedule": (
        lambda: hourly(RateLimit(1, per=timedelta(minutes=1))),
        lambda: hourly(RateLimit(1, per=timedelta(minutes=2))),
    ),
    "cost-above-limit": (
        lambda: hourly(RateLimit(9, cost=lambda note: 8 + len(note.text))),
        lambda: hourly(RateLimit(9, cost=lambda note: 10 + len(note.text))),
    ),
    "timeout-beyond-lane": (
        lambda: declared(priority=Priority.CRITICAL, timeout=timedelta(seconds=150)),
        lambda: declared(priority=Priority.CRITICAL, timeout=timedelta(seconds=151)),
    ),
    "no-timeout-in-a-process": (
        lambda: declared(isolation="process"),
        lambda: declared(isolation="process", timeout=None),
    ),
    "fifo-without-group": (lambda: fifo(group_by=lambda note: note.text), fifo),
    "batch-never-full": (
        lambda: batching(concurrency=Concurrency(10)),
        lambda: batching(concurrency=Concurrency(9)),
    ),
    "batch-outwaits-expiry": (lambda: batching(expires=6), lambda: batching(expires=5)),
    "accepts-from-unknown-queue": (lambda: accepting("partners"), lambda: accepting("partner")),
    "accepts-ambiguous": (lambda: accepting("jobs", "partners"), lambda: accepting("uploads")),
    "dead-letters-expire-first": (
        lambda: moved_in(dead_letters="dead", dead_letters_retention=timedelta(days=5)),
        lambda: moved_in(dead_letters="dead", dead_letters_retention=timedelta(days=4)),
    ),
    "event-fields-unfit": (lambda: event_rule("text"), lambda: event_rule("txt")),
    "payload-lost-in-json": (
        # It is written by others, and only read here.
        lambda: holding(Renamed, accepts=Accepts.json()),
        lambda: holding(Renamed),
    ),
    "result-lost-in-json": (
        lambda: holding(returns=Renamed, records="failures"),
        lambda: holding(returns=Renamed),
    ),
}


@pytest.mark.parametrize("rule", PASSING_AND_FAILING)
def test_each_rule_finds_its_fault_and_only_there(rule: str) -> None:
    passing, failing = PASSING_AND_FAILING[rule]
    assert check(passing(), NOW) == []
    [fault] = check(failing(), NOW)
    assert fault.rule == rule
    assert fault.where in ("type note", "type book", "queue orders")
    assert fault.what
    assert fault.why
    assert fault.instead


def test_a_secret_that_is_written_as_asterisks_is_a_warning() -> None:
    [fault] = check(holding(list[Login]), NOW)
    assert (fault.rule, fault.severity) == ("payload-lost-in-json", "warning")
    assert fault.what == "Login.password, in its payload: pydantic writes this secret as asterisks"
    assert "PlainSerializer" in fault.instead


def test_bytes_that_are_not_read_as_they_are_written_are_a_warning() -> None:
    payload, result = check(holding(Photo, returns=Photo), NOW)
    assert payload.what == (
        "Photo.data, in its payload: pydantic writes its bytes as base64, and does not read them so"
    )
    assert (result.rule, result.severity) == ("result-lost-in-json", "warning")
    assert "val_json_bytes" in result.instead


def test_a_payload_that_can_not_be_read_is_left_to_those_who_read_it() -> None:
    assert check(holding(Rule, returns=Rule), NOW) == []


def brief() -> App:
    return declared(timeout=timedelta(seconds=20))


def trial(**fields: Any) -> Deployment:
    """Return the deployment of a stage that is declared to be thrown away."""
    return Deployment(keep_data=False, **fields)


def kept(**fields: Any) -> Deployment:
    """Return the deployment of a stage that keeps its data, and can't be deleted by mistake."""
    return Deployment(keep_data=True, protected=True, **fields)


def on_lambda(**options: Any) -> Deployment:
    """Return a function for all jobs, unless ``options`` say otherwise."""
    fields = {"name": "function", "handler": "shop.function.handler"}
    return trial(workers=(), consumers=(ConsumerGroup(**(fields | options)),))


def at(stage: str) -> Callable[[], App]:
    def make() -> App:
        app = App("shop", stage=stage)
        app.define("note", Note)
        return app

    return make


def brisk() -> App:
    """Return an app with a single queue."""
    app = App("shop")
    app.queue("mail", priorities=[Priority.NORMAL]).define("note", Note)
    return app


def broad(groups: int) -> App:
    """Return an app with groups of four queues each."""
    app = App("shop", priorities="all")
    for number in range(groups):
        app.queue(f"group-{number}").define(f"type-{number}", Note)
    return app


TOLD = ("oncall@example.com",)

THEIRS = "arn:aws:sqs:eu-central-1:111122223333:orders"

WARNINGS = {
    "alarm-never-fires",
    "budget-without-reader",
    "limits-multiply",
    "limits-not-in-functions",
    "no-stage",
    "nobody-is-told",
    "own-key-in-a-standby",
    "queue-of-another-account",
    "receives-of-existing",
    "stack-too-large",
    "unprotected",
    "visibility-below-advice",
}

WITH_A_DEPLOYMENT: dict[
    str, tuple[tuple[Callable[[], App], Deployment], tuple[Callable[[], App], Deployment]]
] = {
    "deployment-unfit": (
        (declared, trial()),
        (declared, trial(workers=(WorkerGroup(priorities=(Priority.LOW,)),))),
    ),
    "timeout-above-functions": (
        (lambda: declared(timeout=timedelta(seconds=27)), on_lambda()),
        (lambda: declared(timeout=timedelta(seconds=28)), on_lambda()),
    ),
    "visibility-below-advice": (
        (brief, on_lambda(timeout=timedelta(seconds=49), max_batching_window=timedelta(seconds=6))),
        (brief, on_lambda(timeout=timedelta(seconds=49), max_batching_window=timedelta(seconds=7))),
    ),
    "nobody-is-told": (
        (lambda: declared(alert_at_once=True), trial(alerts_to=TOLD)),
        (lambda: declared(alert_at_once=True), trial()),
    ),
    "limits-multiply": (
        (lambda: declared(rate_limit=RateLimit(1, per=1, scope="fleet")), trial()),
        (lambda: declared(rate_limit=RateLimit(1, per=1)), trial()),
    ),
    "names-too-long": (
        (declared, trial(workers=(WorkerGroup(name="w" * 59),))),
        (declared, trial(workers=(WorkerGroup(name="w" * 60),))),
    ),
    "names-alike": (
        (lambda: grouped("batch2", "batch-3", "ba-tch2"), trial()),
        (lambda: grouped("batch2", "batch-2"), trial()),
    ),
    "variables-of-lambda": (
        (brief, replace(on_lambda(), environment={"REGION": "eu-west-1"})),
        (brief, replace(on_lambda(), environment={"AWS_REGION": "eu-west-1"})),
    ),
    "variables-too-large": (
        (brief, replace(on_lambda(), environment={"CERTIFICATE": "x" * 3_850})),
        (brief, replace(on_lambda(), environment={"CERTIFICATE": "x" * 3_950})),
    ),
    "alarm-never-fires": (
        (brisk, trial(alarms=Thresholds(oldest=timedelta(days=4) - timedelta(seconds=1)))),
        (brisk, trial(alarms=Thresholds(oldest=timedelta(days=4)))),
    ),
    "alarms-of-no-queue": (
        (declared, trial(alarms=Thresholds(queues={"jobs": QueueThresholds(depth=1)}))),
        (declared, trial(alarms=Thresholds(queues={"job": QueueThresholds(depth=1)}))),
    ),
    "stack-too-large": (
        (lambda: broad(11), trial()),
        (lambda: broad(12), trial()),
    ),
    "nested-of-no-queue": (
        (declared, trial(nested=("jobs",))),
        (declared, trial(nested=("job",))),
    ),
    "own-key-in-a-standby": (
        (lambda: sealing("alias/shop-payloads"), trial(standby=True)),
        (sealing, trial(standby=True)),
    ),
    "budget-without-reader": (
        (declared, kept(alarms=None, tickets_to=TOLD)),
        (declared, kept(alarms=None)),
    ),
    "existing-of-no-queue": (
        (moved_in, trial()),
        (lambda: moved_in(group="mails"), trial()),
    ),
    "queue-of-another-account": (
        (moved_in, trial()),
        (lambda: moved_in(THEIRS), trial()),
    ),
    "receives-of-existing": (
        (lambda: moved_in(max_receive_count=100), trial()),
        (lambda: moved_in(max_receive_count=99), trial()),
    ),
    "no-stage": (
        (at("dev"), Deployment()),
        (declared, Deployment()),
    ),
    "unprotected": (
        (at("prod"), Deployment(alerts_to=TOLD, protected=True)),
        (at("prod"), Deployment(alerts_to=TOLD)),
    ),
    "limits-not-in-functions": (
        (lambda: declared(timeout=timedelta(seconds=27)), on_lambda()),
        (
            lambda: declared(
                timeout=timedelta(seconds=27), rate_limit=RateLimit(1, per=timedelta(seconds=1))
            ),
            on_lambda(),
        ),
    ),
}


@pytest.mark.parametrize("rule", WITH_A_DEPLOYMENT)
def test_each_rule_of_deployments_finds_its_fault_and_only_there(rule: str) -> None:
    (app, deployment), (failing_app, failing) = WITH_A_DEPLOYMENT[rule]
    assert check(app(), NOW, deployment) == []
    [fault] = check(failing_app(), NOW, failing)
    assert fault.rule == rule
    assert fault.what
    assert fault.why
    assert fault.instead
    assert fault.severity == ("warning" if rule in WARNINGS else "error")
    assert check(failing_app(), NOW) == []


def test_every_rule_of_deployments_is_tried_here() -> None:
    tried = {rule.replace("-", "_") for rule in WITH_A_DEPLOYMENT}
    assert {rule.__name__ for rule in DEPLOYMENT_RULES} == tried


def test_alarms_of_a_stage_that_keeps_its_data_need_somebody_to_tell() -> None:
    [fault] = check(declared(alert_at_once=True), NOW, kept())
    assert (fault.rule, fault.where) == ("nobody-is-told", "app shop")
    assert check(declared(), NOW, kept(alarms=None, budget_usd=0)) == []


def test_a_limit_multiplies_by_all_processes_that_serve_its_queue() -> None:
    groups = (WorkerGroup(max_tasks=2, processes=3), WorkerGroup(name="spare", max_tasks=4))
    app = declared(concurrency=Concurrency(5))
    [fault] = check(app, NOW, trial(workers=groups))
    assert (fault.rule, fault.where) == ("limits-multiply", "type note")
    assert "up to 10 of them" in fault.what
    assert check(app, NOW, trial(workers=(WorkerGroup(max_tasks=1),))) == []


def test_every_name_of_a_deployment_is_measured() -> None:
    app = App("s" * 30, stage="t" * 30)
    app.define("r" * 65, Note, schedule=cron("0 8 * * ? *"))
    deployment = trial(
        workers=(WorkerGroup(name="workers"),),
        consumers=(ConsumerGroup(name="mailer", handler="shop.handler", queues=("mail",)),),
    )
    said = " ".join(each.what for each in check(app, NOW, deployment))
    for part in ("bridge", "sweep", "role", "-workers'", "-mailer'", "has a schedule"):
        assert part in said, part


@pytest.mark.parametrize("name", ["_HANDLER", "_OWN", "X"])
def test_a_name_that_lambda_does_not_take_is_a_fault_of_functions_alone(name: str) -> None:
    environment = {name: "1"}
    [fault] = check(brief(), NOW, replace(on_lambda(), environment=environment))
    assert (fault.rule, fault.severity) == ("variables-of-lambda", "error")
    assert f"environment has {name}," in fault.what
    assert check(declared(), NOW, trial(environment=environment)) == []


def test_too_many_variables_of_a_function_are_told_with_the_largest() -> None:
    environment = {"CERTIFICATE": "x" * 6_000, "CURRENCY": "EUR"}
    [fault] = check(brief(), NOW, replace(on_lambda(), environment=environment))
    assert (fault.rule, fault.severity) == ("variables-too-large", "error")
    assert "of the function 'function' have 6," in fault.what
    assert fault.what.endswith("the largest is CERTIFICATE")
    assert check(declared(), NOW, trial(environment=environment)) == []


def test_a_type_without_a_timeout_in_a_function_is_a_warning() -> None:
    [fault] = check(declared(), NOW, on_lambda())
    assert (fault.rule, fault.severity) == ("timeout-above-functions", "warning")
    assert "it has no timeout of its own, and" in fault.what
    [_, endless] = check(declared(timeout=None), NOW, on_lambda())
    assert "it has no timeout, and" in endless.what


def by_priority(*of_function: Priority, app: App) -> Deployment:
    """Return a deployment whose function serves some priorities, and its workers all others."""
    others = {spec.priority for spec in app.topology.queues} - {*of_function}
    mailer = ConsumerGroup(name="mailer", handler="shop.handler", priorities=of_function)
    workers = (WorkerGroup(priorities=tuple(others)),) if others else ()
    return trial(workers=workers, consumers=(mailer,))


LONG = timedelta(seconds=100)


@pytest.mark.parametrize("own", [{"priority": "low"}, {"other_priorities": ["low"]}])
@pytest.mark.parametrize("priorities", ["used", "all"])
def test_a_timeout_is_compared_with_the_functions_of_every_declared_priority(
    own: dict[str, Any], priorities: Any
) -> None:
    app = App("shop", priorities=priorities)
    app.define("note", Note, timeout=LONG, **own)
    faults = check(app, NOW, by_priority(Priority.LOW, app=app))
    [fault] = [each for each in faults if each.severity == "error"]
    assert (fault.rule, fault.where) == ("timeout-above-functions", "type note")
    assert "the function 'mailer', which runs it, ends after" in fault.what


def test_of_an_undeclared_priority_that_submissions_may_have_it_is_a_warning() -> None:
    app = App("shop")
    app.queue("mail", priorities=["normal", "low"]).define(
        "note", Note, timeout=LONG, rate_limit=RateLimit(1, per=1, scope="fleet")
    )
    timeout, limits = check(app, NOW, by_priority(Priority.LOW, app=app))
    assert (timeout.rule, timeout.severity) == ("timeout-above-functions", "warning")
    assert "which runs those submitted as low, ends after" in timeout.what
    assert "let workers serve low of its queue" in timeout.instead
    assert (limits.rule, limits.severity) == ("limits-not-in-functions", "warning")
    assert "the function 'mailer' runs those submitted as low, and type note" in limits.what


def test_a_priority_that_only_another_type_names_is_nothing_of_a_type_s() -> None:
    app = App("shop")
    app.define("note", Note, timeout=LONG)
    app.define("brief", Note, timeout=timedelta(seconds=5), priority="low")
    assert check(app, NOW, by_priority(Priority.LOW, app=app)) == []


@pytest.mark.parametrize(
    ("of_function", "of_workers"),
    [(Priority.NORMAL, Priority.LOW), (Priority.LOW, Priority.NORMAL)],
)
def test_a_timeout_is_compared_with_the_functions_of_queues_that_a_type_accepts_from(
    of_function: Priority, of_workers: Priority
) -> None:
    app = App("shop")
    app.queue("old", priorities=["normal", "low"])
    app.define("note", Note, timeout=LONG, accepts_from=["old"])
    mailer = ConsumerGroup(
        name="mailer", handler="shop.handler", queues=("old",), priorities=(of_function,)
    )
    workers = (
        WorkerGroup(queues=("jobs",)),
        WorkerGroup(name="old", queues=("old",), priorities=(of_workers,)),
    )
    [fault] = check(app, NOW, trial(workers=workers, consumers=(mailer,)))
    assert (fault.rule, fault.severity) == ("timeout-above-functions", "error")


@pytest.mark.parametrize("priority", Priority)
def test_a_type_that_is_endless_on_purpose_is_named_whatever_its_lane(priority: Priority) -> None:
    [fault] = check(declared(priority=priority, timeout=None), NOW)
    assert (fault.rule, fault.severity) == ("timeout-beyond-lane", "warning")
    assert "it may run for 11:50:00" in fault.what
    assert f"is {priority} on 'jobs'" in fault.what


def test_a_type_that_leaves_its_timeout_to_the_app_suits_every_lane() -> None:
    assert check(declared(priority=Priority.CRITICAL), NOW) == []


def test_an_app_without_a_timeout_leaves_children_to_hang() -> None:
    app = App("shop", timeout=None)
    app.define("render", Note, isolation="process")
    assert [fault.rule for fault in check(app, NOW)] == ["no-timeout-in-a-process"]


@pytest.mark.parametrize(("timeout_s", "window_s"), [(301, 0), (30, 271)])
def test_a_function_that_outlasts_the_visibility_is_an_error_not_advice(
    timeout_s: int, window_s: int
) -> None:
    function = on_lambda(
        timeout=timedelta(seconds=timeout_s), max_batching_window=timedelta(seconds=window_s)
    )
    [fault] = check(brief(), NOW, function)
    assert (fault.rule, fault.severity) == ("deployment-unfit", "error")


def test_a_function_for_a_queue_that_the_app_lacks_is_a_fault() -> None:
    [fault] = check(declared(), NOW, on_lambda(queues=("mail",)))
    assert fault.rule == "deployment-unfit"
    assert "no queue 'mail'" in fault.what


def test_every_rule_is_tried_here() -> None:
    tried = {rule.replace("-", "_") for rule in PASSING_AND_FAILING}
    assert {rule.__name__ for rule in RULES} == tried


@pytest.mark.parametrize(
    ("expression", "fires"),
    [
        ("0 8 * * ? *", True),
        ("0 8 ? * MON-FRI *", True),
        ("0 8 31 4,6,9,11 ? *", False),
        ("0 8 31 APR-MAY ? *", True),
        ("0 8 L 2 ? *", True),
        ("0 8 30/1 FEB ? *", False),
        ("0 8 29 2 ? 2025", False),
        ("0 8 1 1 ? 2025-2027", True),
        ("0 8 1 1 ? 2024/2", True),
    ],
)
def test_a_cron_expression_is_known_to_have_a_date_or_not(expression: str, fires: bool) -> None:
    faults = check(declared(schedule=cron(expression)), NOW)
    assert [fault.rule for fault in faults] == ([] if fires else ["schedule-never-fires"])


def before(days: float) -> datetime:
    return NOW - timedelta(days=days)


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule.at(before(1)),
        cron("0 8 1 1 ? 2025"),
        cron("0 8 * * ? *", end=before(1)),
        cron("0 8 * * ? *", start=before(9), end=before(1)),
        Schedule.rate(timedelta(hours=1), start=before(9), end=before(1)),
        Schedule.rate(timedelta(hours=1), end=before(1)),
    ],
    ids=lambda schedule: f"{schedule.expression} {schedule.start or ''}-{schedule.end or ''}",
)
def test_a_schedule_that_is_over_is_a_warning_and_blocks_no_deploy(schedule: Schedule) -> None:
    [fault] = check(declared(schedule=schedule), NOW)
    assert (fault.rule, fault.severity) == ("schedule-over", "warning")


@pytest.mark.parametrize(
    "schedule",
    [
        cron("0 8 30 2 ? *", end=before(1)),
        cron("30 2 29 3 ? 2026", timezone="Europe/Berlin"),  # skipped by the clocks
        cron("0 8 1 7 ? *", start=datetime(2025, 8, 1, tzinfo=UTC), end=before(1)),
    ],
    ids=["no such day", "no such time", "none between start and end"],
)
def test_a_schedule_that_never_could_fire_is_an_error_whenever_it_ends(schedule: Schedule) -> None:
    [fault] = check(declared(schedule=schedule), NOW)
    assert (fault.rule, fault.severity) == ("schedule-never-fires", "error")


@pytest.mark.parametrize(
    ("app", "deployment", "kind"),
    [
        (grouped("a1-2", "a-1-2"), trial(), "queue groups"),
        (
            declared(),
            trial(workers=tuple(WorkerGroup(name=name) for name in ("a1-2", "a-1-2"))),
            "worker groups",
        ),
        (
            grouped("x", "y"),
            trial(
                workers=(),
                consumers=tuple(
                    ConsumerGroup(name=name, handler="shop.handler", queues=(queue,))
                    for name, queue in (("a1-2", "x"), ("a-1-2", "y"))
                ),
            ),
            "consumers",
        ),
    ],
    ids=["queues", "workers", "consumers"],
)
def test_groups_that_outputs_could_not_tell_apart_are_named(
    app: App, deployment: Deployment, kind: str
) -> None:
    [fault] = [each for each in check(app, NOW, deployment) if each.severity == "error"]
    assert fault.rule == "names-alike"
    assert fault.what == f"the {kind} 'a1-2' and 'a-1-2' differ by hyphens alone"
    assert "Rename 'a1-2' or 'a-1-2'" in fault.instead


def noticed(name: str, stage: str | None = None) -> App:
    app = App("shop", stage=stage)
    app.event_rule(name, pattern={"source": ["x"]}, job=app.define("note", Note))
    return app


def test_the_name_of_an_event_rule_is_measured_with_app_and_stage() -> None:
    assert check(noticed("r" * 59), NOW, trial()) == []
    assert check(noticed("r" * 54, "prod"), NOW, trial()) == []
    [fault] = check(noticed("r" * 55, "prod"), NOW, trial())
    assert (fault.rule, fault.severity) == ("names-too-long", "error")
    assert "the event rule 'shop-prod-rrr" in fault.what
    assert "has 65 characters; EventBridge allows 64" in fault.what
    assert "or event rule" in fault.instead


def test_errors_come_first() -> None:
    app = fifo()
    app.define("note", Note, retry=Retry(max_attempts=991))
    assert [fault.severity for fault in check(app, NOW)] == ["error", "warning"]


@pytest.mark.parametrize("app", [assistant, shop, travel], ids=lambda app: app.name)
def test_the_examples_pass_all_checks(app: App) -> None:
    told = Deployment(keep_data=True, protected=True, alerts_to=("oncall@example.com",))
    assert check(app, NOW, told) == []


def test_a_fault_reads_well_after_a_did_you_mean_question() -> None:
    app = App("shop")
    app.define("send", dict)
    unknown = trial(workers=(WorkerGroup(queues=("job",)),))
    [fault] = check(app, NOW, unknown)
    assert "did you mean 'jobs'? Synthesis" in str(fault)


def test_a_stack_that_no_nesting_makes_small_enough_is_told_what_does() -> None:
    many = tuple(WorkerGroup(name=f"workers-{n}", queues=("jobs",)) for n in range(40))
    [by_queues] = size_rules.stack_too_large(broad(12), trial())
    [by_services] = size_rules.stack_too_large(declared(), trial(workers=many))
    assert '"nested"' in by_queues.instead
    assert 'leave out App(..., priorities="all")' in by_queues.instead
    assert 'priorities="all"' not in by_services.instead, "it has none that no type uses"
    assert "one worker group serve several" in by_services.instead
