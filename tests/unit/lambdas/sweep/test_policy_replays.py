"""Dead letters that the sweep sends back by its types' policies, and those it leaves alone."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headgate import (
    App,
    AsyncClient,
    DeadLetterFilter,
    Encryption,
    Existing,
    ExistingQueue,
    Priority,
    Replay,
    Retry,
    Signing,
)
from headgate.errors import ConfigurationError, ServiceUnavailable, SettingsInvalid
from headgate.jobs.core.concurrency import Threads
from headgate.jobs.core.events import Events
from headgate.jobs.core.immediate import ImmediateSecretStore
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.retention import Keep
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.dead_letters.replaying.book import ReplayBook
from headgate.jobs.dead_letters.replaying.options import ReplayOptions
from headgate.jobs.dead_letters.replaying.replays import new_report
from headgate.jobs.dead_letters.replaying.report import ReplayState
from headgate.jobs.deployment.replay_plan import outline_of
from headgate.jobs.deployment.sweep_plan import (
    EVERY,
    SUMMARY_EVERY,
    plan_input,
    read_plan,
    sweep_plan,
)
from headgate.jobs.messages.bundles import bundle_body
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.messages.outgoing import message_of
from headgate.jobs.records.items import asked_partition
from headgate.testing import Harness
from tests.support.clients import client_of
from tests.support.sweep_bench import Order, SweepBench

HOUR = timedelta(hours=1)
NORMAL = "shop-test-jobs-normal"
ADA = "Ada Lovelace"
"""With a space, which no hash and no base64 has by chance."""


def shop(policy: Replay | None = None, **options: Any) -> App:
    app = App("shop", stage="test", replay=policy or Replay(after=HOUR), **options)
    app.define("send-email", Order)
    app.define("by-hand", Order, replay=None)
    app.define("often", Order, replay=Replay(reasons=["permanent-error"], errors=["card"], most=2))
    ledger = app.queue("ledger", priorities=[Priority.NORMAL], fifo=True)
    ledger.define("book", Order, group_by=lambda _: "g")
    return app


def bench_of(policy: Replay | None = None, **options: Any) -> SweepBench:
    return SweepBench(shop(policy, **options))


def later(bench: SweepBench, by: timedelta = HOUR) -> int:
    """Sweep now, which counts what is new, and again after a time; return what was replayed."""
    bench.swept()
    bench.clock.advance(by)
    return bench.swept().replayed.total()


def client(bench: SweepBench) -> AsyncClient:
    return client_of(
        "AsyncClient", bench.app, bench.sqs, table=bench.table, store=bench.store, clock=bench.clock
    )


async def test_a_letter_is_sent_back_once_its_policy_s_time_is_over() -> None:
    bench = bench_of()
    job_id = bench.die("send-email")
    assert later(bench, HOUR - EVERY) == 0
    bench.clock.advance(EVERY)
    assert bench.swept().replayed == {("jobs", "send-email"): 1}
    assert bench.everything() == []
    [message] = bench.sqs.messages(NORMAL)
    body = json.loads(message.body)
    [report] = await client(bench).dead_letters.replays()
    assert (body["id"], body["source"]) == (job_id, f"replay:{report.id}")
    assert message.attributes["Replays"] == "1"
    assert (report.actor, report.state, report.sent) == ("sweep", ReplayState.DONE, 1)
    assert bench.table.sync.query(asked_partition(job_id))


def test_what_no_policy_selects_stays_where_it_is() -> None:
    bench = bench_of()
    bench.die("by-hand")
    bench.die("often")  # its policy has another reason
    bench.crash("send-email")
    assert later(bench, timedelta(days=5)) == 0
    assert len(bench.everything()) == 3


def test_a_job_is_replayed_as_often_as_its_policy_says_and_then_waits_for_a_person() -> None:
    bench = bench_of(Replay(max_replays=2, after=HOUR))
    bench.die("send-email")
    replayed = [later(bench)]
    for _ in range(3):
        bench.die_again(NORMAL)
        replayed.append(later(bench))
    assert replayed == [1, 1, 0, 0]
    assert len(bench.everything()) == 1


@pytest.mark.parametrize("own", [["env", "lang"], ["Env", "Lang"], [f"Own{n}" for n in range(7)]])
def test_a_job_is_out_of_replays_whatever_attributes_its_sender_gave_it(own: list[str]) -> None:
    bench = bench_of(Replay(max_replays=2, after=HOUR))
    message = message_of(bench.envelope("send-email"))
    bench.send(
        NORMAL, replace(message, attributes={**message.attributes, **dict.fromkeys(own, "x")})
    )
    replayed = []
    for _ in range(4):
        bench.die_again(NORMAL)
        replayed.append(later(bench))
    assert replayed == [1, 1, 0, 0]


def test_a_sweep_that_has_just_found_a_letter_counts_it_before_it_is_sent_back() -> None:
    bench = bench_of()
    bench.die("send-email")
    bench.clock.advance(timedelta(days=1))
    assert bench.swept().replayed.total() == 0
    assert bench.swept().replayed.total() == 1
    assert bench.counted.total() == 1


def test_a_summary_tells_of_no_letter_that_the_same_sweep_has_sent_back() -> None:
    bench = bench_of(Replay(after=timedelta(minutes=5)))
    bench.die("by-hand")
    assert bench.swept().told == 1  # the first summary comes at once
    bench.clock.advance(SUMMARY_EVERY - EVERY)
    sent_back, stays = bench.die("send-email"), bench.die("by-hand")
    assert bench.swept().told == 0
    bench.clock.advance(EVERY)
    swept = bench.swept()
    assert (swept.replayed.total(), swept.told) == (1, 1)
    assert stays in bench.texts()
    assert sent_back not in bench.texts()


def test_no_summary_comes_where_all_that_was_new_is_sent_back() -> None:
    bench = bench_of(Replay(after=timedelta(minutes=5)))
    bench.die("by-hand")
    bench.swept()
    bench.clock.advance(SUMMARY_EVERY - EVERY)
    bench.die("send-email")
    assert later(bench, EVERY) == 1
    assert len(bench.tickets.published) == 1
    bench.die("by-hand")
    assert bench.swept().told == 1  # it still is due


def test_a_critical_letter_is_told_even_if_it_could_not_be_before_it_was_sent_back() -> None:
    app = App("shop", stage="test", replay=Replay(after=timedelta(minutes=5)))
    app.define("capture", Order, alert_at_once=True)
    bench = SweepBench(app)
    job_id = bench.die("capture")
    bench.topic.fail(ServiceUnavailable("down"))
    with pytest.raises(ServiceUnavailable):
        bench.swept()
    bench.clock.advance(EVERY)
    swept = bench.swept()
    assert (swept.replayed.total(), swept.told) == (1, 1)
    assert job_id in bench.texts()


def test_a_policy_s_number_of_jobs_bounds_each_sweep() -> None:
    bench = bench_of(Replay(after=HOUR, most=3))
    for _ in range(8):
        bench.die("send-email")
    assert later(bench) == 3
    assert [bench.swept().replayed.total() for _ in range(3)] == [3, 2, 0]


def test_a_policy_names_errors_by_their_class_or_their_text() -> None:
    bench = bench_of(Replay(errors=["timeouterror", "refused"], after=HOUR))
    bench.die("send-email", error="TimeoutError")
    bench.die("send-email", error="ValueError")
    assert later(bench) == 1
    assert len(bench.everything()) == 1


@pytest.mark.parametrize(
    "paused", [{"queue": "jobs"}, {"job_type": "send-email"}, {"tenant": "acme"}], ids=str
)
async def test_nothing_that_is_paused_is_sent_back(paused: dict[str, Any]) -> None:
    bench = bench_of()
    bench.die("send-email", tenant={"org": "acme"})
    bench.swept()
    bench.clock.advance(HOUR)
    await client(bench).pauses.create(**paused, lasts=HOUR)
    assert bench.swept().replayed.total() == 0
    assert await client(bench).dead_letters.replays() == []
    bench.clock.advance(HOUR)
    assert bench.swept().replayed.total() == 1


async def test_a_job_that_came_too_late_for_its_start_is_left_to_a_person() -> None:
    bench = bench_of()
    bench.die("send-email", expires_at=bench.clock.now() + HOUR / 2)
    assert later(bench) == 0
    assert (await client(bench).dead_letters.replay(DeadLetterFilter())).sent == 1


def shop_of_offers() -> SweepBench:
    app = shop()
    app.define("offer", Order, expires=HOUR / 2)
    return SweepBench(app)


@pytest.mark.parametrize("source", ["schedule:offer", "event:placed", "sdk"])
async def test_a_job_that_its_type_lets_expire_is_left_to_a_person(source: str) -> None:
    bench = shop_of_offers()
    bench.die("offer", source=source)
    assert later(bench) == 0
    assert (await client(bench).dead_letters.replay(DeadLetterFilter())).sent == 1
    bench.die_again(NORMAL)
    assert later(bench) == 1  # a person has meant it to run whenever it comes


def test_a_type_s_time_to_start_counts_from_when_the_job_was_due() -> None:
    bench = shop_of_offers()
    bench.die("offer", not_before=bench.clock.now() + HOUR)
    assert later(bench) == 1


def test_a_bundle_with_a_job_that_has_expired_is_left_to_a_person() -> None:
    bench = shop_of_offers()
    jobs = [message_of(bench.envelope("offer")).body for _ in range(2)]
    letter = OutgoingMessage(
        body=bundle_body(jobs), attributes={"Reason": "attempts-exhausted", "JobType": "offer"}
    )
    bench.send(f"{NORMAL}-dlq", letter)
    assert later(bench) == 0


def test_another_program_s_message_that_has_certainly_expired_is_left() -> None:
    bench = shop_of_offers()
    attributes = {"Reason": "attempts-exhausted", "JobType": "offer"}
    bench.send(f"{NORMAL}-dlq", OutgoingMessage(body='{"card": "1"}', attributes=attributes))
    assert later(bench) == 0
    bench.send(
        f"{NORMAL}-dlq",
        OutgoingMessage(body='{"card": "2"}', attributes={**attributes, "Replays": "1"}),
    )
    assert later(bench) == 1


async def test_while_a_person_s_replay_is_under_way_the_sweep_replays_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = bench_of()
    bench.die("send-email")
    bench.swept()
    bench.clock.advance(HOUR)
    report = new_report(bench.clock.now(), DeadLetterFilter(), ReplayOptions(), "ada")
    await ReplayBook(bench.table, bench.clock).begin(report)
    with caplog.at_level(logging.INFO, "headgate.sweep"):
        assert bench.swept().replayed.total() == 0
    assert f"the replay {report.id} is under way" in caplog.text
    bench.clock.advance(EVERY)  # its process has died
    assert bench.swept().replayed.total() == 1


def test_letters_of_a_fifo_group_are_sent_back_in_their_order() -> None:
    bench = bench_of()
    ids = []
    for _ in range(3):
        ids.append(bench.die("book"))
        bench.clock.advance(1)
    assert later(bench) == 3
    messages = bench.sqs.messages("shop-test-ledger-normal.fifo")
    assert [json.loads(each.body)["id"] for each in messages] == ids
    assert {each.group for each in messages} == {"g"}


def test_a_sealed_and_signed_job_is_sent_back_by_the_sweep_and_runs() -> None:
    app = App("shop", signing=Signing(), encryption=Encryption(required=True))
    ran = list[str]()

    @app.job("send", retry=Retry(max_attempts=1), once=True, replay=Replay(after=HOUR))
    def send(note: dict[str, str]) -> None:
        ran.append(note["text"])
        if len(ran) == 1:
            raise TimeoutError

    jobs, bench = on_harness(app)
    jobs.client.submit(send, {"text": ADA})
    jobs.drain()
    assert later(bench) == 1
    [message] = jobs.sqs.messages("shop-jobs-normal")
    assert ADA not in message.body
    jobs.drain()
    assert (ran, jobs.dead_letters()) == ([ADA, ADA], [])


def test_a_letter_that_nobody_has_signed_is_left_and_not_tried_again() -> None:
    app = App("shop", signing=Signing())
    app.define("send-email", Order, replay=Replay(after=HOUR))
    jobs, bench = on_harness(app)
    bench.die("send-email")
    assert later(bench) == 0
    [report] = jobs.client.dead_letters.replays()
    assert (report.sent, report.refused, report.state) == (0, 1, ReplayState.DONE)
    bench.swept()
    assert len(jobs.client.dead_letters.replays()) == 1
    assert len(jobs.dead_letters()) == 1


def on_harness(app: App) -> tuple[Harness, SweepBench]:
    """Return an app's harness, and a sweep of it."""
    jobs = Harness(app)
    bench = SweepBench(app, clock=jobs.clock)
    bench.sqs, bench.table, bench.store = jobs.sqs, jobs.table, jobs.store
    bench.keyring = Keyring(
        ImmediateSecretStore(jobs.secrets.sync),
        "shop-signing",
        concurrency=Threads(),
        clock=jobs.clock,
        events=Events(),
    )
    return jobs, bench


@pytest.mark.parametrize("others", [(), ("jobs",)])
def test_letters_of_any_queue_are_sent_back_whatever_its_name(others: tuple[str, ...]) -> None:
    app = App("shop", stage="test", replay=Replay(after=HOUR))
    for name in ("billing", *others):
        queue = app if name == "jobs" else app.queue(name, priorities=[Priority.LOW])
        queue.define(f"of-{name}", Order)
    bench = SweepBench(app)
    bench.die("of-billing")
    assert later(bench) == 1
    assert len(bench.sqs.messages("shop-test-billing-low")) == 1


def test_a_sweep_with_nothing_to_replay_writes_no_replay() -> None:
    bench = bench_of()
    bench.die("by-hand")
    later(bench)
    assert bench.table.sync.query("replays") == []


def test_what_was_sent_and_could_not_be_deleted_is_deleted_by_the_next_sweep() -> None:
    bench = bench_of()
    bench.die("send-email")
    bench.swept()
    bench.clock.advance(HOUR)
    bench.sqs.faults.fail_entries("delete", indexes=[0])
    assert bench.swept().replayed.total() == 1
    assert len(bench.everything()) == 1
    bench.clock.advance(EVERY)
    assert bench.swept().replayed.total() == 0
    assert (len(bench.sqs.messages(NORMAL)), bench.everything()) == (1, [])


def test_of_several_letters_of_one_death_a_policy_sends_one_and_deletes_all() -> None:
    bench = bench_of()
    bench.die("send-email")
    [letter] = bench.sqs.messages(f"{NORMAL}-dlq")
    for _ in range(3):
        bench.send(f"{NORMAL}-dlq", OutgoingMessage(body=letter.body, attributes=letter.attributes))
    assert later(bench) == 1
    assert (len(bench.sqs.messages(NORMAL)), bench.everything()) == (1, [])


def test_the_outline_has_the_names_and_the_records_of_the_app_s_types() -> None:
    app = shop(records="failures", keep=Keep(failed=timedelta(days=40)))
    plan = read_plan(plan_input(sweep_plan(app, has_bridge=False)))
    assert plan.replay is not None
    outline = outline_of(plan.replay)

    def names(queues: tuple[QueueSpec, ...]) -> list[tuple[Any, ...]]:
        return sorted((each.name, each.dlq_name, each.group, each.fifo) for each in queues)

    assert names(outline.topology.queues) == names(app.topology.queues)
    assert outline.types.keys() == {"send-email", "often", "book"}
    assert {job.records for job in outline.types.values()} == {"failures"}
    assert {job.keep.failed for job in outline.types.values() if job.keep} == {timedelta(days=40)}


EXISTING = {
    "orders": {
        "normal": ExistingQueue(
            queue="orders",
            dead_letters="orders-dead",
            max_receive_count=50,
            retention=timedelta(days=2),
            dead_letters_retention=timedelta(days=10),
        ),
        "low": ExistingQueue(queue="arn:aws:sqs:eu-central-1:444455556666:orders"),
    },
    "ledger": {
        "normal": ExistingQueue(queue="ledger.fifo", dead_letters="ledger-dead.fifo"),
    },
    "mail": {"normal": ExistingQueue(queue="mail", dead_letters="mail-dead")},
}


def on_existing_queues() -> App:
    """Return an app in whose group "mail" no type has a policy."""
    app = shop(existing=Existing(queues=EXISTING))
    orders = app.queue("orders", priorities=["normal", "low"])
    orders.define("order", Order)
    orders.define("tidy-orders", Order, priority="low")
    app.queue("mail", priorities=["normal"]).define("mail", Order, replay=None)
    return app


@pytest.mark.parametrize("job_type", ["order", "tidy-orders", "book", "send-email"])
def test_letters_of_queues_that_exist_are_sent_back_to_them(job_type: str) -> None:
    bench = SweepBench(on_existing_queues())
    job = bench.app.find_type(job_type)
    queue = bench.app.topology.queue(job.queue, job.priority)
    bench.die(job_type)
    assert later(bench) == 1
    assert bench.everything() == []
    [sent] = bench.sqs.messages(queue.name)
    assert parse(sent.body).queue == job.queue


def test_the_outline_s_queues_have_the_numbers_of_those_that_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = on_existing_queues()
    rendered = json.dumps(plan_input(sweep_plan(app, has_bridge=False)))
    monkeypatch.setenv("HEADGATE_EXISTING", '{"table": "another"}')  # the plan alone counts
    plan = read_plan(json.loads(rendered)).replay
    assert plan is not None
    assert "mail" not in plan.existing

    of_policies = [spec for spec in app.topology.queues if spec.group != "mail"]
    assert sorted(outline_of(plan).topology.queues, key=_name) == sorted(of_policies, key=_name)


def _name(spec: QueueSpec) -> str:
    return spec.name


def moved_here() -> App:
    """Return an app with a type that runs from the queues of its old group, too."""
    app = App("shop", stage="test")
    app.define("other", Order)
    mail = app.queue("mail", priorities=["high"])
    mail.define("send-email", Order, accepts_from=["jobs"], replay=Replay(after=HOUR))
    return app


@pytest.mark.parametrize("group", ["jobs", "mail"])
def test_a_type_s_policy_counts_in_every_group_that_it_accepts_from(group: str) -> None:
    bench = SweepBench(moved_here())
    spec = bench.app.topology.queue(group, "high")
    job = message_of(bench.envelope("send-email", queue=group))
    told = {**job.attributes, "Reason": "attempts-exhausted"}
    bench.send(spec.dlq_name, OutgoingMessage(body=job.body, attributes=told))
    bench.swept()
    bench.clock.advance(HOUR)
    assert bench.swept().replayed == {(group, "send-email"): 1}
    assert (len(bench.sqs.messages(spec.name)), bench.everything()) == (1, [])


def test_a_plan_of_an_earlier_version_names_no_queues_that_exist() -> None:
    given = plan_input(sweep_plan(shop(), has_bridge=False))
    assert given["replay"].pop("existing") == ""
    plan = read_plan(given).replay
    assert plan is not None
    assert NORMAL in {spec.name for spec in outline_of(plan).topology.queues}


def test_an_app_without_policies_has_the_plan_that_it_always_had() -> None:
    app = App("shop")
    app.define("send-email", Order)
    assert "replay" not in plan_input(sweep_plan(app, has_bridge=False))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"reasons": []}, "at least one reason"),
        ({"reasons": ["quarantined"]}, "nobody but a person"),
        ({"reasons": ["do-not-retry"]}, "nobody but a person"),
        ({"reasons": "redriven"}, "takes a list of texts"),
        ({"errors": [7]}, "takes a list of texts"),
        ({"max_replays": 0}, "between 1 and 20"),
        ({"most": 501}, "between 1 and 500"),
        ({"after": 60}, "as often as the sweep comes"),
        ({"after": timedelta(days=13)}, "since SQS deletes letters"),
    ],
)
def test_nonsense_is_refused_where_it_is_declared(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsInvalid, match=complaint):
        Replay(**given)


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="write Replay"):
        App("shop", replay=3)  # type: ignore[arg-type] # what is refused
    with pytest.raises(ConfigurationError, match="the type 'x': replay must be a Replay"):
        App("shop").define("x", replay=True)  # type: ignore[call-overload] # what is refused
