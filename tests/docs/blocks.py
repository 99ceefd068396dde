"""The content of the pages' generated places, by name: costs, alarms, metrics, permissions."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from headgate import App, Priority, Schedule
from headgate.infra.fargate.scaling_formulas import alarm_metrics
from headgate.infra.monitoring.alarm_rules import rules_for
from headgate.infra.monitoring.queue_rules import label
from headgate.infra.monitoring.rule import Rule
from headgate.jobs.deployment import metric_names
from headgate.jobs.deployment.deployment import INTERFACE_ENDPOINTS, Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.ops import prices
from headgate.ops.cdk_context import deployment_from_cdk_json
from headgate.ops.costing.alarms import watched_metrics
from headgate.ops.costing.estimate import Estimate, estimate
from headgate.ops.costing.load import Load
from headgate.ops.prices import Price
from tests.docs.generate import ROOT, Block
from tests.docs.measured import peers
from tests.support.served_metrics import served_metrics

_NOW = datetime(2026, 11, 1, tzinfo=UTC)
_MONTH = Load(jobs=10e6)
_HOURS = prices.MONTH_S / 3600
_PUBLIC = Deployment(network="public")
_COST = ("-A", "examples.shop.app:app", "cost", "--jobs", "10M")


class _Payload(BaseModel):
    days: int = 1


# --- costs ---------------------------------------------------------------------------------------


def _app(*, types: int = 1, queues: int = 0, schedule: bool = False) -> App:
    app = App("shop", stage="prod", priorities="all")
    for number in range(types):
        app.define(f"send-{number}", _Payload)
    if schedule:
        app.define("report", _Payload, schedule=Schedule.rate(timedelta(days=1)))
    for number in range(queues):
        app.queue(f"payments-{number}", priorities=[Priority.CRITICAL])
    return app


def _month(app: App, deployment: Deployment, load: Load) -> Estimate:
    return estimate(app, deployment, load, now=_NOW)


def _usd(app: App, deployment: Deployment, *, jobs: float = 0) -> float:
    return _month(app, deployment, Load(jobs=jobs)).bill.usd


@cache
def _shop() -> Estimate:
    from examples.shop.app import app

    return _month(app, deployment_from_cdk_json(ROOT / "cdk.json", app.stage), _MONTH)


def _shop_command() -> str:
    # In a process of its own: results of handlers are known once something has imported them.
    code = "from headgate.ops import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *_COST],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
    return "\n".join(("```console", f"$ headgate {' '.join(_COST)}", *lines, "```"))


def _before_the_first_job() -> float:
    return sum(_shop().bill.by_type[None].values())


def _a_month(price: Price) -> float:
    return price.of(_HOURS)


def _of_a_queue() -> float:
    return _usd(_app(queues=2), Deployment()) - _usd(_app(queues=1), Deployment())


def _metrics_of_a_queue() -> int:
    with_one, without = _app(queues=2), _app(queues=1)
    return watched_metrics(with_one, Deployment()) - watched_metrics(without, Deployment())


def _of_a_type() -> float:
    two, one = (_usd(_app(types=types), Deployment(), jobs=1e6) for types in (2, 1))
    return two - one


# --- alarms --------------------------------------------------------------------------------------

_MANY = 15
"""Number of queues beyond which an app's alarms grow by as many metrics with each."""

_CONSUMER = ConsumerGroup(name="thumbnails", handler="shop.function.handler")


def _rules(app: App, deployment: Deployment | None = None) -> Sequence[Rule]:
    deployment = deployment or Deployment()
    return rules_for(app, deployment, bridge=True, schedules=True, sweep="shop-prod-sweep")


def _of_queues(app: App, rules: Iterable[Rule]) -> list[Rule]:
    labels = tuple(f"{label(spec)}-" for spec in app.topology.queues)
    return [rule for rule in rules if rule.name.startswith(labels)]


def _alarms_of_a_queue() -> str:
    rules = [rule for rule in _rules(_app()) if rule.name.startswith("jobs-high-")]
    return _alarms({rule.name.removeprefix("jobs-high-"): rule for rule in rules})


def _alarms_of_the_app() -> str:
    app = _app(schedule=True)
    rules = _rules(app, Deployment(consumers=(_CONSUMER,)))
    of_queues = _of_queues(app, rules)
    return _alarms({rule.name: rule for rule in rules if rule not in of_queues})


def _alarms(rules: Mapping[str, Rule]) -> str:
    rows = [(f"`{name}`", rule.means, _sentence(rule.first)) for name, rule in rules.items()]
    return _table(("alarm", "it says", "do first"), rows)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _watched(rules: Iterable[Rule]) -> int:
    return sum(len(rule.metrics) for rule in rules)


def _watched_of_a_queue() -> int:
    app = _app(queues=1)
    in_flight = 1
    return _watched(_of_queues(app, _rules(app))) // len(app.topology.queues) + in_flight


def _watched_of_a_further_queue() -> tuple[int, int]:
    """Return the fewest and the most metrics that an app watches more with one queue more."""
    app, found = App("shop"), []
    for number in range(_MANY):
        found.append(_watched(_rules(app)) if app.topology.queues else 0)
        name = f"queue-{number}"
        app.queue(name, priorities=[Priority.LOW]).define(name, _Payload, priority=Priority.LOW)
    added = [after - before for before, after in pairwise(found[1:])]
    return min(added), max(added)


def _watched_of_a_group() -> Sequence[int]:
    """Return the fewest and the most metrics that the alarm of a worker group watches."""
    one, many = App("shop"), App("shop")
    one.queue("queue", priorities=[Priority.LOW]).define("send", _Payload, priority=Priority.LOW)
    for number in range(5):
        many.queue(f"queue-{number}").define(f"send-{number}", _Payload)
    found = []
    for app in (one, many):
        for least in (0, 1):
            group = WorkerGroup(name="only", min_tasks=least)
            rules = _rules(app, Deployment(workers=(group,)))
            found += [len(rule.metrics) for rule in rules if rule.name == "only-silent"]
    return min(found), max(found)


def _watched_of_the_app() -> int:
    app = _app(schedule=True)
    rules = _rules(app, Deployment(workers=(), consumers=(_CONSUMER,)))
    queues = _of_queues(app, rules)
    own = [rule for rule in rules if rule not in queues]
    return _watched(rule for rule in own if rule.name not in ("in-flight", "thumbnails-errors"))


def _cost_of_alarms() -> str:
    whole = _watched(_rules(_app(schedule=True)))
    low, high = _watched_of_a_further_queue()
    rows = [
        ("an app with one group of four queues, one worker group, schedules", *_paid(whole)),
        (
            "and each further queue",
            f"{low} to {high}",
            f"{prices.ALARMS.of(low):.2f} to {prices.ALARMS.of(high):.2f}",
        ),
        ("and each consumer", *_paid(1)),
    ]
    return _table(("", "metrics", "USD a month"), rows)


def _paid(metrics: int) -> tuple[str, str]:
    return str(metrics), f"{prices.ALARMS.of(metrics):.2f}"


# --- metrics -------------------------------------------------------------------------------------


def _published() -> str:
    of_type, of_lane, of_dead_letter, of_workers = (
        ", ".join(f"`{name}`" for name in sorted(dimensions))
        for dimensions in (
            metric_names.OF_TYPE,
            metric_names.OF_LANE,
            metric_names.OF_DEAD_LETTER,
            metric_names.OF_WORKERS,
        )
    )
    counts = ", ".join(f"`{name}`" for name in metric_names.COUNTED.values())
    of_lanes = ", ".join(f"`{name}`" for name in metric_names.LANE_COUNTED.values())
    rows = [
        ("a job type", of_type, counts, "count"),
        ("a job type", of_type, f"`{metric_names.DURATION}`: how long handlers ran", "seconds"),
        ("a queue", of_lane, of_lanes, "count"),
        ("a queue", of_lane, f"`{metric_names.WAIT}`: from when jobs were due to start", "seconds"),
        ("dead letters", of_dead_letter, f"`{metric_names.DEAD_LETTERS}`: new ones", "count"),
        (
            "dead letters",
            of_type,
            f"`{metric_names.LETTERS_REPLAYED}`: sent back by policy",
            "count",
        ),
        (
            "the app",
            f"`{metric_names.SERVICE}`",
            f"`{metric_names.LETTERS_KEPT}`: those in all queues",
            "count",
        ),
        (
            "a worker group with more than four queues",
            of_workers,
            f"`{metric_names.TASKS_WANTED}`, `{metric_names.TASKS_BUSY}`: what its jobs need",
            "tasks",
        ),
    ]
    return _table(("of", "dimensions", "metrics", "unit"), rows)


def _methods() -> str:
    from headgate.infra.ijob_system import IJobSystem  # the rest needs no CDK

    rows = []
    for name, method in vars(IJobSystem).items():
        if name.startswith("metric"):
            first = " ".join((inspect.getdoc(method) or "").partition("\n\n")[0].split())
            rows.append((f"`{name}({_parameters(method)})`", first.removeprefix("Return ")))
    return _table(("method", "returns"), rows)


def _parameters(method: object) -> str:
    if not callable(method):
        raise TypeError(f"{method} is no method")
    given = list(inspect.signature(method).parameters.values())[1:]
    return ", ".join(
        f"{each.name}=..." if each.kind is each.KEYWORD_ONLY else each.name
        for each in given
        if each.kind is not each.VAR_KEYWORD
    )


_LANE_METRICS = len(metric_names.LANE_COUNTED) + len({metric_names.WAIT})


def _metrics_of_ten_types() -> int:
    """Return the metrics of ten types on four queues, half of which are tried again."""
    of_each, of_failing = 2, 2  # completed, duration; failed, retried
    return 10 * of_each + 5 * of_failing + 4 * _LANE_METRICS


# --- Prometheus ----------------------------------------------------------------------------------


def _prometheus() -> str:
    rows = []
    for each in served_metrics(_app()):
        labels = ", ".join(f"`{label}`" for label in each.labels)
        rows.append((f"`{each.name}`", each.kind, labels, each.about))
    return _table(("metric", "kind", "labels", "shows"), rows)


# --- permissions ---------------------------------------------------------------------------------


def _of_grants() -> str:
    from tests.support import attempts  # the rest needs no CDK

    app = attempts.declared()
    return _attempts(app, attempts.policies(app), list(attempts.GRANTS))


def _of_roles() -> str:
    from tests.support import attempts

    app = attempts.declared()
    return _attempts(app, attempts.stack_policies(app), list(attempts.ROLES))


def _attempts(app: App, policies: Any, holders: Sequence[str]) -> str:
    from tests.support import attempts

    rows = [
        (
            each.label,
            *("yes" if attempts.allowed(policies, name, each) else "no" for name in holders),
        )
        for each in attempts.attempts(app)
    ]
    return _table(("may they …", *(f"`{name}`" for name in holders)), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


BLOCKS: Mapping[str, Block] = {
    "peers": lambda: _table(*peers()),
    "shop-month": _shop_command,
    "shop-usd": lambda: f"{_shop().bill.usd:.0f}",
    "shop-idle-usd": lambda: f"{_before_the_first_job():.0f}",
    "idle-usd": lambda: f"{_usd(_app(), Deployment()):.0f}",
    "idle-public-usd": lambda: f"{_usd(_app(), _PUBLIC):.0f}",
    "endpoint-usd": lambda: f"{_a_month(prices.INTERFACE_ENDPOINT):.2f}",
    "endpoints": lambda: str(len(INTERFACE_ENDPOINTS) + 1),
    "endpoints-usd": lambda: (
        f"{(len(INTERFACE_ENDPOINTS) + 1) * _a_month(prices.INTERFACE_ENDPOINT):.2f}"
    ),
    "endpoints-without-delays-usd": lambda: (
        f"{len(INTERFACE_ENDPOINTS) * _a_month(prices.INTERFACE_ENDPOINT):.2f}"
    ),
    "address-usd": lambda: f"{_a_month(prices.PUBLIC_ADDRESS):.2f}",
    "queue-usd": lambda: f"{_of_a_queue():.2f}",
    "queue-metrics": lambda: str(_metrics_of_a_queue()),
    "type-usd": lambda: f"{_of_a_type():.2f}",
    "prices-as-of": lambda: prices.AS_OF,
    "alarms-of-a-queue": _alarms_of_a_queue,
    "alarms-of-the-app": _alarms_of_the_app,
    "alarm-metric-usd": lambda: f"{prices.ALARMS.usd:.2f}",
    "alarm-metrics-of-a-queue": lambda: str(_watched_of_a_queue()),
    "alarm-metrics-of-a-group": lambda: "{} to {}".format(*_watched_of_a_group()),
    "alarm-metrics-of-the-app": lambda: str(_watched_of_the_app()),
    "alarm-costs": _cost_of_alarms,
    "scaling-metrics": lambda: str(alarm_metrics(WorkerGroup(), _app().topology.queues)),
    "composite-usd": lambda: f"{prices.COMPOSITES.usd:.2f}",
    "published-metrics": _published,
    "metric-usd": lambda: f"{prices.METRICS.usd:.2f}",
    "metrics-of-ten-types": lambda: str(_metrics_of_ten_types()),
    "metrics-of-ten-types-usd": lambda: f"{prices.METRICS.of(_metrics_of_ten_types()):.2f}",
    "metric-methods": _methods,
    "prometheus-metrics": _prometheus,
    "attempts": _of_grants,
    "attempts-of-roles": _of_roles,
}
