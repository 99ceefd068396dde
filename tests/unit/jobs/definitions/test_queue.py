"""Queue groups with the priorities that their types use."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Priority, Queue, Router
from headgate.jobs.core.topology import DEFAULT_LANES, Lane
from headgate.jobs.errors import ConfigurationError, UnknownQueue
from headgate.testing import Harness


class Order(BaseModel):
    card: str = ""


def names(app: App) -> list[str]:
    return [spec.name for spec in app.topology.queues]


def used(*others: Priority) -> App:
    """Return an app whose default group has the priorities of its types, and these."""
    return App("shop", stage="test", default_queue=Queue("jobs", priorities=["used", *others]))


def test_a_group_has_the_priorities_that_its_types_use_the_most_urgent_first() -> None:
    app = used()
    app.define("report", Order, priority=Priority.LOW)
    app.define("capture", Order, priority="critical")
    assert names(app) == ["shop-test-jobs-critical", "shop-test-jobs-low"]


def test_a_type_that_names_none_is_normal_whatever_was_declared_before() -> None:
    app = used()
    app.define("report", Order, priority=Priority.LOW)
    assert app.define("send-email", Order).priority is Priority.NORMAL
    assert names(app) == ["shop-test-jobs-normal", "shop-test-jobs-low"]


def test_a_priority_that_submissions_may_take_is_named_beside() -> None:
    app = used(Priority.HIGH)
    app.define("send-email", Order)
    assert names(app) == ["shop-test-jobs-high", "shop-test-jobs-normal"]


def test_a_type_of_a_router_brings_its_priority_when_it_joins() -> None:
    app, router = used(), Router()
    app.include(router)
    app.define("send-email", Order)
    assert names(app) == ["shop-test-jobs-normal"]
    router.define("capture", Order, priority=Priority.CRITICAL)
    assert names(app) == ["shop-test-jobs-critical", "shop-test-jobs-normal"]


def test_the_numbers_of_a_lane_count_once_a_type_uses_it() -> None:
    slow = Lane(visibility=600, start_within=3_600, share=0.05)
    app = App("shop", stage="test")
    batch = app.queue("batch", priorities=["used"], lanes={Priority.LOW: slow})
    assert names(app) == []
    batch.define("report", Order, priority=Priority.LOW)
    batch.define("import", Order)
    assert [spec.lane for spec in app.topology.queues] == [DEFAULT_LANES[Priority.NORMAL], slow]


def test_a_submission_with_a_priority_that_no_type_uses_is_refused() -> None:
    app = used()

    @app.job("send-email")
    def send_email(order: Order) -> None: ...

    client = Harness(app).client
    client.submit(send_email, Order())
    with pytest.raises(UnknownQueue, match=r"no priority 'high': it was declared with normal"):
        client.submit(send_email, Order(), priority=Priority.HIGH)


def test_an_unknown_priority_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match="critical, high, normal, low, used"):
        Queue("jobs", priorities=["urgent"])  # type: ignore[list-item] # what is tested
    with pytest.raises(ConfigurationError, match="no priority 'urgent'"):
        used().define("send-email", Order, priority="urgent")  # type: ignore[call-overload] # likewise


# --- the priorities of an app's groups ------------------------------------------------------------


def test_groups_that_list_no_priorities_have_those_of_their_types() -> None:
    app = App("shop", stage="test")
    app.define("send-email", Order, priority=Priority.HIGH)
    app.queue("mail").define("send-letter", Order)
    assert names(app) == ["shop-test-jobs-high", "shop-test-mail-normal"]


def test_an_app_that_says_all_has_all_four_of_each_group() -> None:
    app = App("shop", stage="test", priorities="all")
    app.define("send-email", Order)
    app.queue("mail").define("send-letter", Order)
    every = [f"shop-test-{group}-{each}" for group in ("jobs", "mail") for each in Priority]
    assert names(app) == every


@pytest.mark.parametrize("said", ["used", "all"])
def test_a_group_that_lists_its_priorities_has_them_whatever_the_app_says(said: Any) -> None:
    app = App("shop", stage="test", priorities=said)
    app.queue("mail", priorities=["high", "low"])
    assert names(app) == ["shop-test-mail-high", "shop-test-mail-low"]


def test_a_queue_that_was_declared_elsewhere_takes_the_priorities_of_its_app() -> None:
    app, mail = App("shop", stage="test"), Queue("mail")
    mail.define("send-letter", Order)
    app.include(mail)
    mail.define("send-parcel", Order, priority="low")
    assert names(app) == ["shop-test-mail-normal", "shop-test-mail-low"]


def test_a_queue_of_two_apps_that_differ_has_to_list_its_priorities() -> None:
    mail, listed = Queue("mail"), Queue("letters", priorities=["low"])
    App("shop", stage="test").include(mail, listed)
    other = App("post", stage="test", priorities="all")
    other.include(listed)
    with pytest.raises(ConfigurationError, match="'mail' lists no priorities, and is in two apps"):
        other.include(mail)


def test_a_type_that_may_be_overridden_says_with_which_priorities() -> None:
    app = App("shop", stage="test")

    @app.job("send-email", other_priorities=["high"])
    def send_email(order: Order) -> None: ...

    assert names(app) == ["shop-test-jobs-high", "shop-test-jobs-normal"]
    client = Harness(app).client
    client.submit(send_email, Order(), priority=Priority.HIGH)
    with pytest.raises(UnknownQueue, match=r"other_priorities=\['low'\]"):
        client.submit(send_email, Order(), priority=Priority.LOW)


def test_a_group_has_the_priorities_of_the_types_that_accept_messages_from_it() -> None:
    app = App("shop", stage="test")
    app.queue("uploads")
    scan = {"priority": "high", "other_priorities": ["low"], "accepts_from": ["uploads"]}
    app.define("scan", Order, **scan)  # type: ignore[call-overload] # options as a mapping
    assert names(app) == [
        f"shop-test-{g}-{p}" for g in ("jobs", "uploads") for p in ("high", "low")
    ]


def test_a_type_that_moves_keeps_the_queue_in_which_its_jobs_still_are() -> None:
    before, after = App("shop", stage="test"), App("shop", stage="test")
    for app in (before, after):
        app.queue("mail").define("send-letter", Order)
    before.queues["mail"].define("send-parcel", Order, priority="critical")
    moved = after.queue("parcels")
    assert set(names(before)) - set(names(after)) == {"shop-test-mail-critical"}
    moved.define("send-parcel", Order, priority="critical", accepts_from=["mail"])
    assert set(names(before)) <= set(names(after))


def test_a_group_that_no_type_runs_from_has_no_queue_and_errors_say_so() -> None:
    app = App("shop", stage="test")
    mail = app.queue("mail")
    for ask in (lambda: app.topology.queue("mail"), lambda: app.topology.select(["mail"])):
        with pytest.raises(UnknownQueue, match=r"no job type .* runs from .*'mail'.*import"):
            ask()
    mail.define("send-letter", Order)
    assert app.topology.queue("mail").priority is Priority.NORMAL


def test_a_group_without_a_type_s_other_priority_is_told_when_the_type_is_declared() -> None:
    app = App("shop", stage="test")
    mail = app.queue("mail", priorities=["normal"])
    with pytest.raises(ConfigurationError, match="'mail' has no priority 'high'"):
        mail.define("send-letter", Order, other_priorities=[Priority.HIGH])
    assert "send-letter" not in app.types


@pytest.mark.parametrize("wanted", ["high", [1], 5, {"high": 1}])
def test_other_priorities_that_are_no_list_are_refused(wanted: Any) -> None:
    with pytest.raises(ConfigurationError, match="other_priorities must be a list of priorities"):
        App("shop", stage="test").define("send-email", Order, other_priorities=wanted)


@pytest.mark.parametrize("wanted", ["some", ["used"], None, Priority.HIGH])
def test_an_app_s_priorities_are_all_or_used(wanted: Any) -> None:
    with pytest.raises(ConfigurationError, match="is 'used' or 'all'"):
        App("shop", stage="test", priorities=wanted)
