"""Routers: job types declared apart from their queue, which join it when they are included."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Backoff, JobContext, Priority, Queue, Retry, Router
from headgate.errors import ConfigurationError, DuplicateJobType, UnknownJobType
from headgate.jobs.messages.foreign_formats import Accepts
from headgate.testing import Done, Harness


class Order(BaseModel):
    id: int = 0


PATIENT = Retry(max_attempts=9, backoff=Backoff.fixed(60))


def test_the_jobs_of_several_routers_run_from_the_queue_that_they_name() -> None:
    refunds, captures = Router(queue="payments"), Router(queue="payments")
    ran: list[tuple[str, int]] = []

    @refunds.job("refund", priority="high")
    async def refund(order: Order, ctx: JobContext) -> None:
        ran.append((ctx.queue, order.id))

    capture = captures.define("capture", Order)

    @capture.handler
    def _(order: Order) -> None:
        ran.append(("payments", order.id))

    app = App("shop")
    app.queue("payments", retry=PATIENT)
    app.include(refunds, captures)
    jobs = Harness(app)
    jobs.client.submit(refund, Order(id=1))
    jobs.client.submit(capture, Order(id=2))
    jobs.drain()
    assert ran == [("payments", 1), ("payments", 2)]
    assert (refund.priority, capture.priority) == (Priority.HIGH, Priority.NORMAL)
    assert refund.retry == capture.retry == PATIENT
    assert jobs.run(refund, Order(id=3), attempt=9) == Done(result=None)


def test_a_router_without_a_queue_is_for_the_default_one() -> None:
    router, app = Router(), App("shop")
    send = router.define("send", Order)
    app.include(router)
    assert send.queue == "jobs"
    assert app.topology.queue("jobs", Priority.NORMAL).name == "shop-jobs-normal"


def test_types_declared_after_the_inclusion_join_at_once_and_are_checked() -> None:
    router, app = Router("payments"), App("shop")
    payments = app.queue("payments", priorities=["high"])
    app.include(router)
    late = router.define("late", Order)
    assert app.find_type("late") is late
    assert late.priority is Priority.HIGH
    with pytest.raises(ConfigurationError, match="no priority 'low'"):
        router.define("wrong", Order, priority="low")
    with pytest.raises(DuplicateJobType, match="two job types are called 'late'"):
        payments.define("late", Order)
    router.define("wrong", Order)  # the refused one has left nothing behind
    assert sorted(app.types) == ["late", "wrong"]


@pytest.mark.parametrize("flip", [False, True])
def test_a_queue_and_its_router_may_be_included_in_one_call_in_any_order(flip: bool) -> None:
    app, router = App("shop"), Router("payments")
    refund = router.define("refund", Order)
    parts: list[Queue | Router] = [Queue("payments", retry=PATIENT), router]
    app.include(*(reversed(parts) if flip else parts))
    assert refund.retry == PATIENT


def test_a_router_for_a_queue_that_the_app_lacks_is_refused_with_what_to_write() -> None:
    app, router = App("shop"), Router("payment")
    router.define("refund", Order)
    app.queue("payments")
    with pytest.raises(ConfigurationError) as refused:
        app.include(router)
    assert str(refused.value) == (
        "the app 'shop' has no queue 'payment', to which <Router for payment: refund> belongs: did "
        "you mean 'payments'? Otherwise declare it before, with app.queue('payment'), or include "
        "both: app.include(Queue('payment'), router)"
    )
    assert "refund" not in app.types


def test_a_router_is_included_once_and_only_routers_and_queues_are() -> None:
    app, router = App("shop"), Router()
    app.include(router)
    with pytest.raises(ConfigurationError, match="<Router for jobs: no job types> is included twi"):
        app.include(router)
    wrong: Any = App("other")
    with pytest.raises(ConfigurationError, match="takes queues and routers, got <App other"):
        app.include(wrong)


def test_two_types_of_one_name_are_refused_wherever_they_are_declared() -> None:
    router, other, app = Router(), Router("mail"), App("shop")
    router.define("send", Order)
    other.define("send", Order)
    with pytest.raises(DuplicateJobType, match="called 'send': both are on the queue 'jobs'"):
        router.define("send", Order)
    app.include(router)
    app.queue("mail")
    with pytest.raises(DuplicateJobType, match="queue 'jobs', the other on 'mail'"):
        app.include(other)


def test_a_router_may_be_in_several_apps_whose_queues_agree() -> None:
    router = Router()
    send = router.define("send", Order)
    first, second = App("shop"), App("shop")
    first.include(router)
    second.include(router)
    assert first.find_type("send") is second.find_type("send") is send
    third = App("shop", default_queue=Queue("jobs", retry=PATIENT))
    with pytest.raises(ConfigurationError, match="'send' is in two apps, whose queues 'jobs' give"):
        third.include(router)


def test_the_queue_s_rules_apply_to_a_router_s_types() -> None:
    app = App("shop")
    app.queue("uploads").define("one", Order, accepts=Accepts.s3())
    router, grouping = Router("uploads"), Router()
    router.define("two", Order, accepts=Accepts.s3())
    grouping.define("ordered", Order, group_by=lambda _order: "a")
    with pytest.raises(ConfigurationError, match="'one' and 'two' of the queue 'uploads' both"):
        app.include(router)
    with pytest.raises(ConfigurationError, match="'ordered': group_by orders the jobs of a FIFO"):
        app.include(grouping)


def test_a_type_whose_router_is_not_included_says_so_when_it_is_used() -> None:
    router, app = Router(), App("shop")
    send = router.define("send", Order)
    assert repr(send) == "<JobType send on jobs>"
    for look in (lambda: send.priority, lambda: send.retry):
        with pytest.raises(ConfigurationError, match=r"'send' was declared on a router.*include"):
            look()
    with pytest.raises(UnknownJobType, match=r"add its queue or router with app\.include"):
        Harness(app).client.submit(send, Order())


def test_a_router_takes_the_name_of_a_queue_and_checks_it() -> None:
    with pytest.raises(ConfigurationError, match="the router's queue 'Jobs' must be lower-case"):
        Router("Jobs")
    payments: Any = Queue("payments")
    with pytest.raises(ConfigurationError, match=r"write @payments\.job\(\.\.\.\), or Router\(que"):
        Router(payments)


def test_the_default_queue_has_the_options_that_the_app_gives_it() -> None:
    app = App("shop", default_queue=Queue("jobs", retry=PATIENT, priorities=["high"]))
    send = app.define("send", Order)
    assert (send.retry, send.priority) == (PATIENT, Priority.HIGH)
    assert [queue.name for queue in app.topology.queues] == ["shop-jobs-high"]


@pytest.mark.parametrize("wrong", [Queue("work"), "jobs"])
def test_a_default_queue_is_a_queue_named_jobs(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"takes a Queue\('jobs', \.\.\.\), got"):
        App("shop", default_queue=wrong)
