"""Queues, tables and buckets that an app names instead of having them created."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Existing, ExistingQueue, Lane, Priority
from headgate.jobs.aws.queue_descriptions import pairs
from headgate.jobs.core.existing.arns import bare_name, owner_of, region_of
from headgate.jobs.core.existing.resources import NOTHING, read_existing
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.errors import ConfigurationError

THEIRS = "arn:aws:sqs:eu-central-1:111122223333:orders"
KEY = "arn:aws:kms:eu-central-1:111122223333:key/1234"
TABLE = "arn:aws:dynamodb:eu-central-1:111122223333:table/their-table"
ORDERS = ExistingQueue(
    queue="orders",
    dead_letters="orders-dead",
    max_receive_count=50,
    retention=timedelta(days=7),
    dead_letters_retention=timedelta(days=10),
)


def named(queue: ExistingQueue = ORDERS, **others: Any) -> Existing:
    return Existing(queues={"orders": {"normal": queue}}, **others)


def shop(existing: Existing | None, **options: Any) -> App:
    app = App("shop", priorities="all", stage="prod", existing=existing)
    app.queue("orders", **options).define("place-order", dict)
    return app


def spec_of(app: App, priority: Priority = Priority.NORMAL) -> QueueSpec:
    return app.topology.queue("orders", priority)


def test_an_existing_queue_has_its_own_name_and_numbers_and_the_lane_its_own() -> None:
    lane = Lane(visibility=40, start_within=60, share=0)
    found = spec_of(shop(named(), lanes={Priority.NORMAL: lane}))

    assert (found.name, found.dlq_name) == ("orders", "orders-dead")
    assert (found.max_receive_count, found.retention) == (50, timedelta(days=7))
    assert found.dlq_retention == timedelta(days=10)
    assert found.visibility_s == 40
    assert found.existing == ORDERS


def test_all_other_queues_are_the_app_s_own() -> None:
    other = spec_of(shop(named()), Priority.HIGH)
    assert (other.name, other.existing) == ("shop-prod-orders-high", None)


def test_without_a_dead_letter_queue_the_app_has_its_own_for_it() -> None:
    found = spec_of(shop(named(ExistingQueue(queue="orders", dead_letters_retention=60))))
    assert found.dlq_name == "shop-prod-orders-normal-dlq"
    assert found.dlq_retention == timedelta(days=14)


def test_a_table_and_a_bucket_are_found_by_name_or_arn() -> None:
    for table, bucket in (
        ("their-table", "their-bucket"),
        (
            "arn:aws:dynamodb:eu-central-1:111122223333:table/their-table",
            "arn:aws:s3:::their-bucket",
        ),
    ):
        topology = shop(Existing(table=table, bucket=bucket)).topology
        assert topology.table_name == "their-table"
        assert topology.bucket.name_in("111122223333", "eu-central-1") == "their-bucket"


def test_an_existing_bucket_goes_before_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADGATE_BUCKET", "other")
    assert shop(Existing(bucket="their-bucket")).topology.bucket_name == "their-bucket"
    assert shop(None).topology.bucket_name == "other"


def test_the_environment_names_what_the_code_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_EXISTING", named(table="their-table").to_text())
    assert shop(None).existing == named(table="their-table")
    assert shop(Existing(table="another")).existing == Existing(table="another")


@pytest.mark.parametrize(
    "existing",
    [
        NOTHING,
        named(),
        named(ExistingQueue(queue=THEIRS, key=KEY, retention=90)),
        Existing(table="their-table", table_key=KEY, bucket="their-bucket", bucket_key=KEY),
    ],
    ids=["nothing", "queue", "arn", "stores"],
)
def test_what_is_written_is_read_back(existing: Existing) -> None:
    assert read_existing(existing.to_text()) == existing
    assert bool(existing) is (existing.to_text() != "{}")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[", "existing: .*invalid json"),
        ({"queue": {}}, "existing.queue: unexpected keyword"),
        ({"queues": []}, r"existing.queues: must be an object, got \[\]"),
        ({"queues": {"jobs": {"low": "theirs"}}}, "jobs.low: must be an object, got .theirs."),
        ({"table": 5}, "existing.table: must be a text, got 5"),
        ({"queues": {"orders": {"normal": {"name": "x"}}}}, "existing.queues.orders.normal"),
        ({"queues": {"orders": {"normal": {"queue": "a b"}}}}, "queue must be a name or an ARN"),
        ({"table": "a/b"}, "existing: table must be a name or an ARN, got 'a/b'"),
        ({"bucket": "Their_Bucket"}, "existing: bucket must be"),
        ({"table": "their-table", "table_key": "alias/x"}, "table_key must be a key's ARN"),
    ],
)
def test_what_is_written_wrongly_is_refused_by_its_place(written: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_existing(written)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"queue": "https://sqs.eu-central-1.amazonaws.com/1/orders"}, "a name or an ARN"),
        ({"queue": "q", "dead_letters": "q.fifo"}, "of a FIFO queue is one too"),
        ({"queue": "q", "max_receive_count": 3}, "between 20 and 1,000, got 3"),
        ({"queue": "q", "max_receive_count": 1001}, "between 20 and 1,000, got 1001"),
        ({"queue": "q", "retention": timedelta(days=15)}, "a minute and 14 days"),
        ({"queue": "q", "key": "1234"}, "key must be a key's ARN"),
    ],
)
def test_a_queue_that_sqs_does_not_have_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ExistingQueue(**fields)


def test_two_queues_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two queues are 'orders'"):
        Existing(queues={"a": {"normal": ORDERS}, "b": {"high": ExistingQueue(queue="orders")}})


@pytest.mark.parametrize(("fifo", "name"), [(True, "orders"), (False, "orders.fifo")])
def test_a_queue_of_the_other_kind_is_refused(fifo: bool, name: str) -> None:
    app = shop(named(ExistingQueue(queue=name)), fifo=fifo)
    with pytest.raises(ConfigurationError, match=f"declare it with fifo={not fifo}"):
        _ = app.topology


def test_a_deployment_may_name_what_the_code_does_not() -> None:
    app = shop(None)
    assert spec_of(app).name == "shop-prod-orders-normal"
    app.use_existing(named())
    app.use_existing(named())
    assert spec_of(app).name == "orders"
    with pytest.raises(ConfigurationError, match="name them in one place"):
        app.use_existing(Existing(table="their-table"))


def test_an_arn_is_told_by_its_parts() -> None:
    assert (bare_name(THEIRS), owner_of(THEIRS)) == ("orders", "111122223333")
    assert (bare_name("orders"), owner_of("orders")) == ("orders", None)
    assert [region_of(each) for each in (THEIRS, "orders", "arn:aws:s3:::shared")] == [
        "eu-central-1",
        None,
        None,
    ]


def test_what_an_arn_puts_into_another_region_is_refused() -> None:
    found = Existing(table=TABLE, bucket="arn:aws:s3:::their-bucket", bucket_key=KEY)
    found.check_region("eu-central-1")
    for other in (found, named(ExistingQueue(queue="orders", dead_letters_key=KEY))):
        with pytest.raises(ConfigurationError, match="in another region than eu-west-1"):
            other.check_region("eu-west-1")


def test_a_dead_letter_queue_takes_from_no_queue_of_another_account() -> None:
    ours, theirs = (
        next(dead for queue, dead in pairs(shop(named(found)).topology) if queue.existing)
        for found in (ExistingQueue(queue="orders"), ExistingQueue(queue=THEIRS))
    )
    assert (ours.takes_from, theirs.takes_from) == ("orders", None)
    assert not ours.existing
