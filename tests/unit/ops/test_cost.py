"""The monthly cost: the bill as it follows from an app, its deployment and its load."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from examples.shop.app import app as shop
from headgate import App, Encryption, Priority, Schedule, Signing, cron
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.pollers import ProvisionedPollers
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.surroundings import ExistingVpc, Hardening
from headgate.jobs.errors import SettingsInvalid, UnknownJobType
from headgate.ops import prices
from headgate.ops.cdk_context import deployment_from_cdk_json
from headgate.ops.cli.cost_options import count
from headgate.ops.cli.main import cli
from headgate.ops.costing.alternatives import alternatives
from headgate.ops.costing.bill import Bill, Charge
from headgate.ops.costing.estimate import Estimate, estimate
from headgate.ops.costing.load import Load, firings
from headgate.ops.costing.standby import Standby
from headgate.ops.costing.sweeping import requests
from headgate.ops.prices import MONTH_S, Price
from tests.unit.workers.rig import Note

ROOT = Path(__file__).parents[3]
NOW = datetime(2026, 11, 1, tzinfo=UTC)
MILLION = 1e6
HOUR = timedelta(hours=1)
ELSEWHERE = Deployment(workers=())
PUBLIC = Deployment(network="public")


def make(**options: Any) -> App:
    """Return an app of one type."""
    app = App("shop", **options)
    app.define("send-email", Note, returns=str)
    return app


def month(
    app: App, deployment: Deployment = ELSEWHERE, *, free_tier: bool = False, **load: Any
) -> Estimate:
    """Return the cost of a month of a million jobs, or as ``load`` says."""
    return estimate(
        app, deployment, Load(**{"jobs": MILLION, **load}), now=NOW, free_tier=free_tier
    )


def units(found: Estimate, price: Price) -> float:
    return sum(charge.units for charge in found.bill.charges if charge.price == price)


# --- the example ---------------------------------------------------------------------------------


def test_the_shop_at_ten_million_jobs_a_month_stays_within_a_hundred_dollars() -> None:
    deployment = deployment_from_cdk_json(ROOT / "cdk.json", shop.stage)
    found = month(shop, deployment, jobs=10 * MILLION)
    assert 0 < found.bill.usd <= 100
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("types", "jobs", "title"),
    [(1, 0, "the floor"), (1, MILLION, "in all, with the floor"), (60, MILLION, "in all, with")],
    ids=["floor", "a-million", "60-types"],
)
def test_the_figures_recomputed_by_hand_are_those_of_the_estimate(
    types: int, jobs: float, title: str
) -> None:
    app = App("shop", stage="prod")
    mail = app.queue("mail")
    for number in range(types):
        mail.define(f"send-{number}", Note)
    page = (ROOT / "docs" / "cost.md").read_text()
    by_hand = [float(usd) for usd in re.findall(rf"\*\*{title}[^|]*\| \| \*\*(.+)\*\*", page)]
    assert month(app, PUBLIC, jobs=jobs).bill.usd == pytest.approx(by_hand[types > 1], rel=0.01)


# --- the bill ------------------------------------------------------------------------------------


def test_services_items_and_types_each_add_up_to_the_whole() -> None:
    bill = month(shop, Deployment()).bill
    assert sum(bill.by_service.values()) == pytest.approx(bill.usd)
    assert sum(item.usd for item in bill.items) == pytest.approx(bill.usd)
    by_type = sum(sum(usd.values()) for usd in bill.by_type.values())
    assert by_type == pytest.approx(bill.usd)


def test_what_aws_gives_away_is_left_out_when_that_is_asked_for() -> None:
    paid, free = month(make()), month(make(), free_tier=True)
    [requests] = [item for item in paid.bill.items if item.what.startswith("requests")]
    [less] = [item for item in free.bill.items if item.what.startswith("requests")]
    given = prices.SQS_STANDARD
    assert less.units == requests.units
    assert less.usd == pytest.approx(requests.usd - given.of(given.free))
    tiny = month(make(), free_tier=True, jobs=10)
    assert all(item.usd >= 0 for item in tiny.bill.items)


@pytest.mark.parametrize(
    ("one", "other"),
    [(prices.DURATION, prices.DURATION_X86), (prices.SQS_STANDARD, prices.SQS_FIFO)],
    ids=["duration", "requests"],
)
def test_free_units_that_two_prices_share_are_given_once(one: Price, other: Price) -> None:
    def usd(*charged: tuple[Price, float]) -> float:
        charges = [Charge(price=price, units=units) for price, units in charged]
        return Bill(charges, free_tier=True).usd

    assert one.free == other.free
    assert usd((one, one.free)) == usd((other, other.free)) == 0
    # Of twice as many as are free half is paid, of either.
    both = usd((one, one.free), (other, other.free))
    assert both == pytest.approx((one.of(one.free) + other.of(other.free)) / 2)


def test_every_price_is_used_and_says_where_it_is_from() -> None:
    costing = "".join(path.read_text() for path in (ROOT / "ops" / "costing").glob("*.py"))
    named = {name: value for name, value in vars(prices).items() if isinstance(value, Price)}
    assert list(named.values()) == prices.all_prices()
    for name, price in named.items():
        assert re.search(rf"\b{name}\b", costing), f"{name} is counted nowhere"
        assert price.source.startswith("https://aws.amazon.com/")
        assert price.usd > 0


# --- the jobs of a month -------------------------------------------------------------------------


def scheduled() -> App:
    app = make()
    app.define("send-sms", Note)
    app.define("daily-report", Note, schedule=cron("0 8 * * ? *"))
    return app


def jobs_of(found: Estimate) -> Mapping[str, float]:
    return {stream.job.name: stream.jobs for stream in found.fleet.streams}


def test_jobs_are_spread_evenly_over_the_types_without_a_schedule() -> None:
    jobs = jobs_of(month(scheduled()))
    assert jobs["send-email"] == jobs["send-sms"] == MILLION / 2
    assert jobs["daily-report"] == pytest.approx(30.4, abs=0.1)


def test_a_share_is_taken_first_and_the_others_have_the_rest() -> None:
    jobs = jobs_of(month(scheduled(), shares={"send-sms": 0.9}))
    assert jobs["send-sms"] == pytest.approx(0.9 * MILLION)
    assert jobs["send-email"] == pytest.approx(0.1 * MILLION)


def test_a_share_of_a_type_that_is_not_there_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownJobType, match="send-email"):
        month(make(), shares={"send-emial": 0.5})


@pytest.mark.parametrize(
    "wrong",
    [
        {"shares": {"send-email": 0.7, "send-sms": 0.7}},
        {"shares": {"send-email": -0.1}},
        {"shares": {"send-email": 0.5, "send-sms": 0.2, "daily-report": 0.1}},
        {"jobs": -1},
        {"failure_rate": 1.5},
        {"together": 11},
        {"peak": 0.5},
        {"delayed": 2},
        {"duration": timedelta(0)},
    ],
    ids=str,
)
def test_a_load_that_can_not_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsInvalid):
        month(scheduled(), **wrong)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Schedule.rate(timedelta(minutes=5)), MONTH_S / 300),
        (cron("0 8 * * ? *"), 30.4),
        (cron("* * * * ? *"), MONTH_S / 60),
        (cron("0 0 1 * ? *"), 1.0),
        (cron("0 8 * * ? 2020"), 0.0),
        (Schedule.at(NOW + timedelta(days=3)), 0.0),
    ],
    ids=lambda value: getattr(value, "expression", None),
)
def test_a_schedule_fires_so_often_a_month(schedule: Schedule, expected: float) -> None:
    assert firings(schedule, NOW) == pytest.approx(expected, rel=0.01)


def test_a_standby_region_fires_nothing() -> None:
    app = scheduled()
    active, standby = month(app), month(app, Deployment(workers=(), standby=True))
    assert jobs_of(standby)["daily-report"] == 0
    assert units(standby, prices.FIRINGS) < units(active, prices.FIRINGS)


def test_a_standby_adds_what_it_costs_without_a_job_and_nothing_for_jobs() -> None:
    app = scheduled()
    there = Standby(app=app, deployment=PUBLIC.as_standby())
    idle = month(app, there.deployment, jobs=0).bill.usd
    for jobs in (MILLION, 4 * MILLION):
        alone = month(app, PUBLIC, jobs=jobs)
        both = estimate(app, PUBLIC, Load(jobs=jobs), now=NOW, standby=there)
        assert alone.standby_usd is None
        assert both.standby_usd == pytest.approx(idle)
        assert both.bill.usd == pytest.approx(alone.bill.usd + idle)
        assert both.bill.by_type["send-email"] == alone.bill.by_type["send-email"]
        assert units(both, prices.DASHBOARDS) == 2


def test_the_free_tier_of_the_account_counts_once_for_stage_and_standby() -> None:
    there = Standby(app=make(), deployment=PUBLIC.as_standby())
    found = estimate(make(), PUBLIC, Load(jobs=MILLION), now=NOW, free_tier=True, standby=there)
    idle = month(make(), there.deployment, jobs=0, free_tier=True).bill.usd
    assert found.standby_usd is not None
    assert found.standby_usd > idle


def test_an_alternative_of_the_deployment_is_one_of_its_standby_too() -> None:
    app, closed = make(), Deployment()
    there = Standby(app=app, deployment=closed.as_standby())
    others = alternatives(app, closed, Load(jobs=MILLION), now=NOW, standby=there)
    public = Standby(app=app, deployment=PUBLIC.as_standby())
    both = estimate(app, PUBLIC, Load(jobs=MILLION), now=NOW, standby=public)
    assert others['network="public": an address for each task'] == pytest.approx(both.bill.usd)


def test_the_command_says_what_of_it_the_standby_costs(tmp_path: Path) -> None:
    prod = {"region": "eu-central-1", "standby_in": {"region": "eu-west-1"}}
    context = {"headgate:stage": "prod", "headgate:stages": {"prod": prod}}
    path = tmp_path / "cdk.json"
    path.write_text(json.dumps({"context": context}))
    asked = [*COMMAND, "--cdk-json", str(path)]
    shown = CliRunner().invoke(cli, asked).output
    told = json.loads(CliRunner().invoke(cli, [*asked, "--json"]).output)
    assert told["standby_usd"] > 0
    assert f"Of it {told['standby_usd']:,.2f} USD for the standby region" in shown


def test_an_event_or_a_long_delay_takes_an_invocation_of_the_bridge() -> None:
    app = App("shop")
    email = app.define("send-email", Note, returns=str)
    app.event_rule("signed-up", job=email, pattern={"source": ["shop"]})
    by_event, directly = month(app), month(make())
    delayed = month(make(), delayed=1.0)
    for found in (by_event, delayed):
        more = units(found, prices.INVOCATIONS) - units(directly, prices.INVOCATIONS)
        assert more == pytest.approx(MILLION)
    assert units(delayed, prices.FIRINGS) > MILLION > units(by_event, prices.FIRINGS)


# --- workers and functions -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jobs", "peak", "at_peak", "tasks"),
    [
        (1_000, 1, 1, 1),
        (100 * MILLION, 1, 2, 2),  # 38 jobs of a second at once, in 0.7 of 50 slots
        (100 * MILLION, 4, 5, 2),  # 5 for a quarter of the month, and one for the rest
        (10_000 * MILLION, 1, 10, 10),
    ],
)
def test_as_many_tasks_run_as_the_jobs_keep_busy(
    jobs: float, peak: float, at_peak: int, tasks: float
) -> None:
    deployment = Deployment(workers=(WorkerGroup(min_tasks=1, max_tasks=10),))
    found = month(make(), deployment, jobs=jobs, peak=peak)
    [crew] = found.fleet.crews
    assert (crew.at_peak, crew.tasks) == (at_peak, tasks)
    assert units(found, prices.VCPU) == pytest.approx(tasks * 730 * 0.25)
    assert any("jobs will wait" in each for each in found.warnings) is (jobs > 1000 * MILLION)


def test_spare_capacity_is_for_the_tasks_beyond_the_first() -> None:
    group = WorkerGroup(min_tasks=3, max_tasks=3, spot=True)
    found = month(make(), Deployment(workers=(group,)))
    assert units(found, prices.VCPU) == pytest.approx(1 * 730 * 0.25)
    assert units(found, prices.SPOT_VCPU) == pytest.approx(2 * 730 * 0.25)


def test_a_public_network_has_an_address_for_each_task_and_no_endpoints() -> None:
    closed, public = month(make(), Deployment()), month(make(), PUBLIC)
    assert units(closed, prices.INTERFACE_ENDPOINT) > 0 == units(closed, prices.PUBLIC_ADDRESS)
    assert units(public, prices.PUBLIC_ADDRESS) == 730
    assert units(public, prices.INTERFACE_ENDPOINT) == 0


def test_a_consumer_costs_its_invocations_and_their_duration() -> None:
    consumer = ConsumerGroup(name="mailer", handler="shop.mailer", batch_size=10, memory_mib=1024)
    deployment = Deployment(workers=(), consumers=(consumer,))
    alone, together = month(make(), deployment), month(make(), deployment, together=10)
    assert units(alone, prices.VCPU) == 0
    assert units(alone, prices.INVOCATIONS) > MILLION > units(together, prices.INVOCATIONS)
    assert units(alone, prices.DURATION) > MILLION > units(together, prices.DURATION)


def test_a_handler_runs_for_as_long_as_those_that_run_it_say() -> None:
    def function(name: str, typical: float) -> ConsumerGroup:
        return ConsumerGroup(name=name, handler="shop.mailer", batch_size=1, typical=typical)

    fast = month(make(), Deployment(workers=(), consumers=(function("a", 1),)))
    slow = month(make(), Deployment(workers=(), consumers=(function("a", 20),)))
    told = month(make(), Deployment(workers=(), consumers=(function("a", 1),)), duration=HOUR / 180)
    assert "a handler runs for 20 s" in " ".join(slow.assumptions)
    assert units(slow, prices.DURATION) == units(told, prices.DURATION)
    assert units(slow, prices.DURATION) > 15 * units(fast, prices.DURATION)
    # Each of several that share the jobs by its own.
    workers = (WorkerGroup(typical=2),)
    both = month(make(), Deployment(workers=workers, consumers=(function("a", 20),)))
    alone = month(make(), Deployment(workers=workers))
    [crew], [whole] = both.fleet.crews, alone.fleet.crews
    assert crew.busy_s["send-email"] == pytest.approx(whole.busy_s["send-email"] / 2)
    assert both.fleet.run_s["send-email"] == 20


def test_dedicated_pollers_cost_their_hours_whatever_comes() -> None:
    app = App("shop")
    app.queue("mail", priorities=["high", "low"]).define("send-letter", Note, priority="low")
    pollers = ProvisionedPollers(minimum=3)
    group = ConsumerGroup(name="mail", handler="shop.handler", pollers=pollers)
    found = month(app, Deployment(workers=(), consumers=(group,)), jobs=0)
    assert units(found, prices.POLLERS) == 2 * 3 * 730


def test_a_signing_key_and_a_sealing_key_of_the_stack_cost_by_the_month() -> None:
    plain, own = month(make()), month(make(signing=Signing(), encryption=Encryption()))
    theirs = Signing(secret="shop-signing")  # noqa: S106 - its name
    named = month(make(signing=theirs, encryption=Encryption(keys=["alias/jobs"])))
    for found, secrets, keys in ((plain, 0, 1), (own, 1, 2), (named, 0, 1)):
        assert units(found, prices.SECRETS) == secrets
        assert units(found, prices.KEYS) == keys


def test_flow_logs_cost_by_the_tasks_of_a_network_of_their_own() -> None:
    logged = Deployment(hardening=Hardening(flow_logs=True), workers=(WorkerGroup(min_tasks=2),))
    # Two tasks, 40 flows at two ends of 130 bytes, six times in each of 730 hours.
    by_hand = 2 * 40 * 2 * 130 * 6 * 730 / 2**30
    assert units(month(make(), logged, jobs=0), prices.FLOW_LOGS) == pytest.approx(by_hand)
    theirs = replace(logged, vpc=ExistingVpc(id="vpc-1", subnets=("subnet-1",)))
    for other in (theirs, replace(logged, hardening=Hardening())):
        assert units(month(make(), other, jobs=0), prices.FLOW_LOGS) == 0


def test_what_no_worker_of_the_deployment_runs_is_said() -> None:
    assert any("send-email" in warning for warning in month(make()).warnings)


def test_a_bill_beyond_the_budget_is_said() -> None:
    bounded, unbounded = Deployment(budget_usd=10), Deployment(budget_usd=0)
    [warning] = month(make(), bounded).warnings
    assert "10" in warning
    assert month(make(), unbounded).warnings == ()


# --- requests to AWS -----------------------------------------------------------------------------


def test_a_larger_payload_is_more_requests_and_a_very_large_one_an_object() -> None:
    small, large = month(make()), month(make(), payload_bytes=100_000)
    assert units(large, prices.SQS_STANDARD) > 1.6 * units(small, prices.SQS_STANDARD)
    assert units(large, prices.OBJECTS_PUT) == 0
    offloaded = month(make(), payload_bytes=300_000)
    assert units(offloaded, prices.OBJECTS_PUT) == MILLION
    assert units(offloaded, prices.SQS_STANDARD) < units(large, prices.SQS_STANDARD)
    assert units(month(make(), result_bytes=400_000), prices.OBJECTS_PUT) == pytest.approx(MILLION)


def test_fifo_queues_and_tenants_have_prices_of_their_own() -> None:
    app = App("shop")
    ledger = app.queue("ledger", priorities=[Priority.NORMAL], fifo=True)
    ledger.define("book", Note, group_by=lambda note: note.text)
    assert units(month(app), prices.SQS_FIFO) > 3 * MILLION
    assert units(month(app, tenants=True), prices.SQS_FAIR) == 0
    assert units(month(make(), tenants=True), prices.SQS_FAIR) > 3 * MILLION


def test_jobs_in_bundles_cost_a_fraction_of_the_requests_and_the_estimate_says_how_many() -> None:
    app = App("shop")
    app.define("embed", Note, bundle=True)
    alone, full = month(app, bundled=1), month(app)
    assert "1 jobs to a message, of types with bundles" in alone.assumptions
    [told] = [each for each in full.assumptions if "to a message" in each]
    assert 60 < int(told.split()[0]) < 100
    sent, shared = (units(each, prices.SQS_STANDARD) for each in (alone, full))
    assert shared < sent / 25
    consumer = ConsumerGroup(name="mailer", handler="shop.mailer")
    function = Deployment(workers=(), consumers=(consumer,))
    alone, full = month(app, function, bundled=1), month(app, function)
    assert units(full, prices.INVOCATIONS) < units(alone, prices.INVOCATIONS) / 25
    assert not any("to a message" in each for each in month(make()).assumptions)


def test_children_are_written_down_where_the_ends_of_jobs_are() -> None:
    def more(records: RecordsLevel) -> float:
        none, half = (month(make(records=records), children=each) for each in (0, 0.5))
        return units(half, prices.WRITES) - units(none, prices.WRITES)

    assert [more(level) for level in ("failures", "outcomes")] == [0, MILLION / 2]
    assert "handlers submit 50 % of the jobs" in month(make(), children=0.5).assumptions


def test_each_level_of_records_writes_more_than_the_one_before() -> None:
    levels: tuple[RecordsLevel, ...] = ("off", "failures", "outcomes", "full")
    written = [units(month(make(records=level)), prices.WRITES) for level in levels]
    assert written == sorted(written)
    assert len(set(written)) == len(levels)


def test_failures_cost_requests_records_lines_and_metrics() -> None:
    well, badly = month(make(), failure_rate=0), month(make(), failure_rate=0.5)
    for price in (prices.SQS_STANDARD, prices.WRITES, prices.LOGS, prices.METRICS):
        assert units(badly, price) > units(well, price)


@pytest.mark.parametrize(
    ("waiting", "expected"), [(0, 1), (1, 4), (10, 4), (11, 6), (1_000, 201), (5_000, 201)]
)
def test_a_sweep_takes_so_many_requests_for_a_queue(waiting: int, expected: int) -> None:
    assert requests(waiting) == expected


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use Headgate's own directory, and a terminal as wide as its page."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")


COMMAND = ["-A", "examples.shop.app:app", "cost", "--jobs", "10M"]


@pytest.mark.usefixtures("here")
def test_as_json_the_command_says_all_that_it_knows() -> None:
    result = CliRunner().invoke(cli, [*COMMAND, "--share", "send-email=0.5", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert sum(found["by_service"].values()) == pytest.approx(found["usd"])
    types = sum(each["usd"] for each in found["by_type"]) + found["whatever_runs"]["usd"]
    assert types == pytest.approx(found["usd"])
    assert found["load"]["shares"] == {"send-email": 0.5}
    assert {price["source"] for price in found["prices"]}
    assert found["otherwise"]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "wrong",
    [
        ["-A", "examples.shop.app:app", "cost"],
        [*COMMAND, "--jobs", "many"],
        [*COMMAND, "--share", "send-email"],
        [*COMMAND, "--share", "send-email=0.1", "--share", "send-email=0.2"],
    ],
    ids=" ".join,
)
def test_what_can_not_be_read_is_a_fault_of_usage(wrong: list[str]) -> None:
    assert CliRunner().invoke(cli, wrong).exit_code == 2


@pytest.mark.parametrize(
    ("text", "expected"), [("250", 250), ("10k", 1e4), ("2.5M", 2.5e6), ("1G", 1e9)]
)
def test_a_number_of_jobs_is_read_by_its_letter(text: str, expected: float) -> None:
    assert count(text) == expected
