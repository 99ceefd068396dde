from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import (
    Accepts,
    App,
    Backoff,
    Discard,
    DoNotRetry,
    JobContext,
    JobState,
    Priority,
    Retry,
    RetryLater,
    Schedule,
    Tenant,
    cron,
)
from headgate.jobs.core.events import JobDeadLettered, JobQuarantined, JobRetryScheduled
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import (
    ConfigurationError,
    HandlerMissing,
    JobCancelled,
    JobDead,
    PayloadInvalid,
    PayloadLost,
    ResultNotSerializable,
    ResultTimeout,
)
from headgate.jobs.testing import Done, DrainUnfinished, Failed, Harness


class Email(BaseModel):
    to: str


@pytest.fixture
def app() -> App:
    return App("shop", priorities="all", stage="test")


# --- submissions ---------------------------------------------------------------------------------


def test_what_was_submitted_is_told_in_the_order_of_submission(app: App) -> None:
    send = app.define("send-email", Email)
    other = app.define("other", Email)
    jobs = Harness(app)
    expected = [f"{number}@example.com" for number in range(30)]
    for number, address in enumerate(expected):
        priority = list(Priority)[number % 4]
        jobs.client.submit(send, Email(to=address), priority=priority)
    jobs.client.submit(other, Email(to="x"))
    assert [each.payload.to for each in jobs.submitted(send)] == expected


def test_a_submitted_job_is_told_with_all_that_was_said_of_it(app: App) -> None:
    send = app.define("send-email", Email)
    jobs = Harness(app)
    handle = jobs.client.submit(send, Email(to="a"), priority=Priority.LOW, tenant="org-1")
    [submitted] = jobs.submitted(send)
    assert (submitted.id, submitted.type, submitted.payload) == (
        handle.id,
        "send-email",
        Email(to="a"),
    )
    assert (submitted.queue, submitted.priority) == ("jobs", Priority.LOW)
    assert (submitted.tenant, submitted.source) == (Tenant(org="org-1"), "sdk")
    assert submitted.receives == 0


async def test_the_async_client_submits_to_the_same_queues(app: App) -> None:
    send = app.define("send-email", Email)
    jobs = Harness(app)
    handle = await jobs.async_client.submit(send, Email(to="a"))
    assert jobs.assert_submitted(send, Email(to="a")).id == handle.id


def test_a_missing_or_doubled_submission_is_told_with_what_there_is(app: App) -> None:
    send = app.define("send-email", Email)
    jobs = Harness(app)
    with pytest.raises(AssertionError, match=r"one 'send-email' with .* found 0 among \[\]"):
        jobs.assert_submitted(send, Email(to="a"))
    jobs.client.submit_many(send, [Email(to="a")] * 2)
    with pytest.raises(AssertionError, match=r"found 2 among \[Email\(to='a'\), Email\(to='a'\)\]"):
        jobs.assert_submitted(send, Email(to="a"))


# --- running it all ------------------------------------------------------------------------------


def test_a_submission_is_looked_for_with_the_values_that_were_given(app: App) -> None:
    send = app.define("send-email", Email)
    jobs = Harness(app)
    given: Any = {"to": "ada"}  # checkers want an Email; a client takes its values too
    jobs.client.submit(send, given)
    assert jobs.assert_submitted(send, given).payload == Email(to="ada")
    wrong: Any = {"too": "ada"}
    with pytest.raises(PayloadInvalid, match="to"):
        jobs.assert_submitted(send, wrong)


async def test_waiting_messages_of_other_programs_are_the_jobs_that_they_become(app: App) -> None:
    @app.job("send-email", accepts=Accepts.json())
    def send(_email: Email) -> None: ...

    jobs = Harness(app)
    queue = app.topology.queue("jobs", "normal")
    bodies = [OutgoingMessage(body=f'{{"to": "{name}"}}') for name in ("ada", "eva")]
    await jobs.sqs.send(queue.name, bodies)
    waiting = {each.id: each.payload.to for each in jobs.submitted(send)}
    await jobs.adrain()
    assert {each.id: each.payload.to for each in jobs.completed(send)} == waiting
    assert sorted(waiting.values()) == ["ada", "eva"]


@pytest.mark.parametrize("delay", [timedelta(minutes=10), timedelta(days=2)])
def test_a_delayed_job_is_found_wherever_it_waits(app: App, delay: timedelta) -> None:
    @app.job("send-email")
    def send(_email: Email) -> None: ...

    jobs = Harness(app)
    job = jobs.client.submit(send, Email(to="ada"), delay=delay)
    assert jobs.assert_submitted(send, Email(to="ada")).id == job.id
    jobs.drain()
    assert jobs.submitted(send) == []
    assert len(jobs.completed(send)) == 1


def test_drain_runs_async_and_plain_handlers_until_every_queue_is_empty(app: App) -> None:
    ran: list[str] = []

    @app.job("async")
    async def asynchronous(email: Email) -> None:
        ran.append(email.to)

    @app.job("plain")
    def plain(email: Email, ctx: JobContext) -> None:
        ran.append(f"{email.to} {ctx.attempt}")

    jobs = Harness(app)
    jobs.client.submit(asynchronous, Email(to="a"))
    jobs.client.submit(plain, Email(to="b"))
    jobs.drain()
    assert sorted(ran) == ["a", "b 1"]
    assert (len(jobs.completed(asynchronous)), len(jobs.completed(plain))) == (1, 1)
    assert jobs.submitted(plain) == []


def test_drain_runs_the_most_urgent_first(app: App) -> None:
    ran: list[str] = []

    @app.job("send-email")
    def send(email: Email) -> None:
        ran.append(email.to)

    jobs = Harness(app)
    for priority in reversed(Priority):
        jobs.client.submit(send, Email(to=str(priority)), priority=priority)
    jobs.drain()
    assert ran == [str(priority) for priority in Priority]


async def test_a_test_in_an_event_loop_drains_there(app: App) -> None:
    @app.job("send-email")
    async def send(email: Email) -> None: ...

    jobs = Harness(app)
    await jobs.async_client.submit(send, Email(to="a"))
    await jobs.adrain()
    assert len(jobs.completed(send)) == 1


def test_retries_and_delays_pass_in_virtual_time(app: App) -> None:
    attempts: list[float] = []

    @app.job("flaky", retry=Retry(max_attempts=3, backoff=Backoff.steps(60, 3600)))
    def flaky(_email: Email) -> None:
        attempts.append(jobs.clock.monotonic())
        if len(attempts) < 3:
            raise TimeoutError

    jobs = Harness(app)
    jobs.client.submit(flaky, Email(to="a"), delay=timedelta(minutes=10))
    jobs.drain()
    assert attempts == [600, 660, 4260]
    assert len(jobs.completed(flaky)) == 1
    waits = [event.delay_s for event in jobs.events if isinstance(event, JobRetryScheduled)]
    assert waits == [60, 3600]


def test_a_job_out_of_attempts_becomes_a_dead_letter_that_says_why(app: App) -> None:
    @app.job("broken", retry=Retry(max_attempts=2, backoff=Backoff.fixed(1)))
    def broken(_email: Email) -> None:
        raise TimeoutError("no answer")

    @app.job("refused")
    def refused(_email: Email) -> None:
        raise DoNotRetry("card stolen")

    jobs = Harness(app)
    handle = jobs.client.submit(broken, Email(to="a"))
    jobs.client.submit(refused, Email(to="a"))
    jobs.drain()
    assert (len(jobs.dead_lettered(broken)), len(jobs.dead_lettered(refused))) == (1, 1)
    [letter] = jobs.dead_letters(broken)
    assert letter.attributes["JobId"] == handle.id
    assert letter.attributes["Reason"] == "attempts-exhausted"
    assert letter.attributes["ErrorMessage"] == "no answer"
    assert len(jobs.dead_letters()) == 2


@pytest.mark.parametrize("after", [timedelta(minutes=5), timedelta(days=2)])
def test_a_deferred_job_comes_back_without_losing_an_attempt(app: App, after: timedelta) -> None:
    runs: list[int] = []

    @app.job("patient", retry=Retry(max_attempts=1))
    def patient(_email: Email) -> None:
        runs.append(1)
        if len(runs) == 1:
            raise RetryLater(after=after)

    jobs = Harness(app)
    jobs.client.submit(patient, Email(to="a"))
    jobs.drain()
    assert len(jobs.completed(patient)) == 1
    assert jobs.clock.monotonic() >= min(after, timedelta(hours=11)).total_seconds()


def test_a_job_may_be_deferred_far_more_often_than_it_has_attempts(app: App) -> None:
    attempts: list[int] = []

    @app.job("poll", retry=Retry(max_attempts=2))
    def poll(_email: Email, ctx: JobContext) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) <= 40:
            raise RetryLater(timedelta(hours=1))

    jobs = Harness(app)
    jobs.client.submit(poll, Email(to="a"))
    jobs.drain(max_runs=50)
    assert attempts == [1] * 41
    assert len(jobs.completed(poll)) == 1


def test_a_job_gives_up_polling_by_the_time_that_a_drain_makes_pass(app: App) -> None:
    runs: list[datetime] = []

    @app.job("poll", timeout=30)
    def poll(until: datetime, ctx: JobContext) -> None:
        runs.append(ctx.deadline)
        if ctx.deadline > until:
            raise DoNotRetry("no answer in time")
        raise RetryLater(timedelta(hours=1))

    jobs = Harness(app)
    jobs.client.submit(poll, jobs.clock.now() + timedelta(hours=6))
    jobs.drain(max_runs=10)
    assert len(jobs.dead_letters(poll)) == 1
    assert runs[-1] - runs[0] == timedelta(hours=6)


def test_a_job_that_asks_for_ten_thousand_years_is_dead_lettered(app: App) -> None:
    @app.job("patient")
    def patient(_email: Email) -> None:
        raise RetryLater(after=timedelta(days=3_652_425))

    jobs = Harness(app)
    jobs.client.submit(patient, Email(to="a"))
    jobs.drain()
    [letter] = jobs.dead_letters(patient)
    assert letter.attributes["Reason"] == "wait-too-long"


def test_a_discarded_job_is_neither_completed_nor_dead(app: App) -> None:
    @app.job("stale")
    def stale(_email: Email) -> None:
        raise Discard("too old")

    jobs = Harness(app)
    jobs.client.submit(stale, Email(to="a"))
    jobs.drain()
    assert (len(jobs.completed(stale)), len(jobs.dead_lettered(stale))) == (0, 0)
    assert jobs.submitted(stale) == []


def test_a_job_that_submits_another_is_drained_with_it(app: App) -> None:
    ship = app.define("ship", Email)
    shipped: list[str] = []

    @ship.handler
    def _(email: Email) -> None:
        shipped.append(email.to)

    @app.job("order")
    def order(email: Email) -> None:
        jobs.client.submit(ship, email)

    jobs = Harness(app)
    jobs.client.submit(order, Email(to="a"))
    jobs.drain()
    assert shipped == ["a"]


def test_a_drain_may_make_just_as_many_runs_as_it_is_given(app: App) -> None:
    @app.job("send")
    def send(_number: int) -> None: ...

    jobs = Harness(app)
    jobs.client.submit_many(send, [1, 2])
    jobs.drain(max_runs=2)
    assert len(jobs.completed(send)) == 2
    jobs.client.submit(send, 3, delay=5)
    with pytest.raises(DrainUnfinished):
        jobs.drain(max_runs=0)


def test_a_single_attempt_is_none_of_the_jobs_that_a_drain_completed(app: App) -> None:
    @app.job("send")
    def send(_number: int) -> None: ...

    jobs = Harness(app)
    assert jobs.run(send, 1) == Done()
    jobs.client.submit(send, 2)
    jobs.drain()
    assert [each.payload for each in jobs.completed(send)] == [2]


def test_a_job_whose_payload_can_not_be_read_is_dead_to_hooks_and_tests() -> None:
    app = App("shop", max_message_bytes=1024, parking=Retry(max_attempts=2))
    dead: list[tuple[str, str]] = []

    @app.on_dead
    def note(event: JobDeadLettered | JobQuarantined) -> None:
        dead.append((event.job_type, getattr(event, "reason", "")))

    @app.job("resize")
    def resize(_image: str) -> None: ...

    @app.job("send")
    def send(_email: Email) -> None: ...

    jobs = Harness(app)
    jobs.client.submit(resize, "x" * 2_000)
    jobs.store.objects.clear()
    jobs.client.submit(send, Email(to="a"))
    [email] = [each for each in jobs.sqs.messages("shop-jobs-normal") if '"to"' in each.body]
    older = OutgoingMessage(body=email.body.replace('"to"', '"recipient"'))
    jobs.sqs.sync.send("shop-jobs-normal", [older])
    jobs.drain()
    assert sorted(dead) == [("resize", "payload-lost"), ("send", "payload-invalid")]
    with pytest.raises(PayloadInvalid):
        jobs.dead_lettered(send)
    with pytest.raises(PayloadLost, match="of 'resize' can't be had"):
        jobs.dead_lettered(resize)


def test_jobs_that_never_end_are_given_up_with_an_error(app: App) -> None:
    @app.job("endless")
    def endless(_email: Email) -> None:
        raise RetryLater(after=timedelta(seconds=1))

    jobs = Harness(app)
    jobs.client.submit(endless, Email(to="a"))
    with pytest.raises(DrainUnfinished, match=r"after 5 runs.*of: endless"):
        jobs.drain(max_runs=5)


def test_a_type_without_a_handler_is_reported_before_anything_runs(app: App) -> None:
    send = app.define("send-email", Email)
    jobs = Harness(app)
    jobs.client.submit(send, Email(to="a"))
    with pytest.raises(HandlerMissing, match="send-email"):
        jobs.drain()
    assert [each.receives for each in jobs.submitted(send)] == [0]


# --- outcomes ------------------------------------------------------------------------------------


def test_after_a_drain_handles_tell_results_states_and_attempts(app: App) -> None:
    @app.job("send-email", retry=Retry(max_attempts=2, backoff=Backoff.fixed(60)))
    async def send(email: Email, ctx: JobContext) -> Email:
        await ctx.progress(40, "writing")
        if ctx.attempt == 1 or email.to == "nobody":
            raise ConnectionError("refused")
        return email

    jobs = Harness(app)
    sent = jobs.client.submit(send, Email(to="ada"))
    lost = jobs.client.submit(send, Email(to="nobody"))
    assert sent.state() is JobState.WAITING
    jobs.drain()
    assert sent.result(timeout=0) == Email(to="ada")
    assert [attempt.outcome for attempt in sent.history().attempts] == ["failed", "completed"]
    progress = sent.progress()
    assert progress is not None
    assert (progress.percent, progress.note) == (40, "writing")
    with pytest.raises(JobDead, match="attempts-exhausted; ConnectionError: refused"):
        lost.result(timeout=0)


def test_a_cancelled_job_is_not_run_by_a_drain(app: App) -> None:
    ran: list[str] = []

    @app.job("send-email")
    def send(email: Email) -> None:
        ran.append(email.to)

    jobs = Harness(app)
    cancelled = jobs.client.submit(send, Email(to="ada"))
    other = jobs.client.submit(send, Email(to="bob"))
    cancelled.cancel("a mistake")
    jobs.drain()
    assert ran == ["bob"]
    with pytest.raises(JobCancelled, match="a mistake"):
        cancelled.result(timeout=0)
    assert other.wait(timeout=0) is JobState.COMPLETED


def test_waiting_for_what_nobody_runs_passes_virtual_time_only(app: App) -> None:
    send = app.define("send-email", Email)
    jobs = Harness(app)
    with pytest.raises(ResultTimeout):
        jobs.client.submit(send, Email(to="ada")).wait(timeout=3600)
    assert jobs.clock.monotonic() == pytest.approx(3600)


def test_a_result_that_no_drain_made_is_not_waited_for_for_ever(app: App) -> None:
    send = app.define("send-email", Email)
    job = Harness(app).client.submit(send, Email(to="ada"))
    with pytest.raises(ResultTimeout, match=r"state is waiting; .*drain\(\)"):
        job.result()


async def test_the_async_client_waits_beside_a_drain_and_not_for_ever(app: App) -> None:
    @app.job("send-email")
    async def send(email: Email) -> Email:
        return email

    jobs = Harness(app)
    job = await jobs.async_client.submit(send, Email(to="ada"))
    with pytest.raises(ResultTimeout, match=r"drain\(\)"):
        await job.wait()
    result, _ = await asyncio.gather(job.result(), jobs.adrain())
    assert result == Email(to="ada")


def test_a_type_declared_after_the_harness_runs_in_its_own_new_queue() -> None:
    app = App("shop", stage="test")
    jobs = Harness(app)

    @app.job("capture", priority="critical")
    async def capture(email: Email) -> None: ...

    @app.queue("carrier").job("book")
    async def book(email: Email) -> None: ...

    jobs.drain()  # there is nothing to run, and nothing is missing
    jobs.client.submit(capture, Email(to="ada"))
    jobs.client.submit(book, Email(to="ada"))
    jobs.drain()
    assert (len(jobs.completed(capture)), len(jobs.completed(book))) == (1, 1)


async def test_the_async_client_tells_what_became_of_its_jobs_too(app: App) -> None:
    @app.job("send-email")
    async def send(email: Email) -> Email:
        return email

    jobs = Harness(app)
    job = await jobs.async_client.submit(send, Email(to="ada"))
    await jobs.adrain()
    assert await job.result(timeout=0) == Email(to="ada")
    with pytest.raises(ResultTimeout):
        await jobs.async_client.handle("0196a2b4-0000-7000-8000-000000000001").wait(timeout=3600)


def test_giving_back_is_no_attempt_with_records_or_without(app: App) -> None:
    for tested in (app, App("silent", records="off")):
        seen: list[int] = []

        @tested.job("poll", retry=Retry(max_attempts=9))
        def poll(_email: Email, ctx: JobContext, seen: list[int] = seen) -> None:
            seen.append(ctx.attempt)
            if len(seen) < 4:
                raise RetryLater(timedelta(minutes=1))

        jobs = Harness(tested)
        jobs.client.submit(poll, Email(to="ada"))
        jobs.drain()
        assert seen == [1, 1, 1, 1]


def test_a_once_job_that_is_delivered_twice_has_the_result_of_its_one_run(app: App) -> None:
    runs = []

    @app.job("charge", once=True)
    async def charge(email: Email) -> str:
        runs.append(email.to)
        return f"receipt {len(runs)}"

    jobs = Harness(app)
    handle = jobs.client.submit(charge, Email(to="a"))
    [message] = jobs.sqs.messages("shop-test-jobs-normal")
    again = [OutgoingMessage(body=message.body)]
    assert jobs.sqs.sync.send("shop-test-jobs-normal", again) == []
    jobs.drain()
    assert runs == ["a"]
    assert handle.result(timeout=1) == "receipt 1"
    assert handle.state() is JobState.COMPLETED
    assert len(jobs.completed(charge)) == 1


def test_a_schedule_that_fires_twice_submits_one_job(app: App) -> None:
    ran: list[str] = []

    @app.job("send-email")
    def send(_email: Email, ctx: JobContext) -> None:
        ran.append(ctx.id)

    jobs = Harness(app)
    jobs.client.schedules.create(
        "hourly", send, Email(to="ada"), schedule=Schedule.rate(timedelta(hours=1))
    )
    jobs.clock.advance(timedelta(hours=1))
    jobs.scheduler.repeat()
    jobs.client.schedules.remove("hourly")
    jobs.client.submit(send, Email(to="bob"), delay=timedelta(days=3))
    jobs.drain()
    jobs.scheduler.repeat()
    jobs.drain()
    assert len(ran) == len(set(ran)) == 3  # it fires when it is created, and an hour later


def test_a_delayed_job_that_waits_for_days_between_attempts_makes_all_of_them(app: App) -> None:
    seen: list[int] = []

    @app.job("send-email", retry=Retry(max_attempts=3, backoff=Backoff.fixed(86_400)))
    def send(_email: Email, ctx: JobContext) -> None:
        seen.append(ctx.attempt)
        raise RetryLater(timedelta(days=1)) if len(seen) == 1 else ConnectionError("refused")

    jobs = Harness(app)
    jobs.client.submit(send, Email(to="ada"), delay=timedelta(days=3))
    jobs.drain()
    assert seen == [1, 1, 2, 3]
    assert len(jobs.dead_lettered(send)) == 1


# --- declared schedules and isolation -------------------------------------------------------------


def scheduled_app() -> App:
    app = App("clockwork")
    app.job("nightly", schedule=cron("0 8 * * ? *", timezone="Europe/Berlin"))(_nothing)
    app.job("often", schedule=Schedule.rate(timedelta(minutes=15)))(_nothing)
    return app


def _nothing() -> None: ...


def test_declared_schedules_fire_as_time_is_advanced() -> None:
    app = scheduled_app()
    jobs = Harness(app)  # midnight in UTC, in winter: Berlin is an hour ahead
    nightly, often = app.types["nightly"], app.types["often"]
    jobs.clock.advance(timedelta(hours=7) - timedelta(seconds=1))
    assert (len(jobs.submitted(nightly)), len(jobs.submitted(often))) == (0, 27)
    jobs.clock.advance(1)
    jobs.drain()
    assert (len(jobs.completed(nightly)), len(jobs.completed(often))) == (1, 28)


def test_draining_alone_fires_no_schedule() -> None:
    app = scheduled_app()
    jobs = Harness(app)
    jobs.drain()
    assert jobs.completed(app.types["often"]) == []


def test_a_declared_schedule_submits_its_own_payload_as_it_is_written() -> None:
    told: list[str] = []
    app, written = App("shop"), "due at <aws.scheduler.scheduled-time>"

    @app.job("remind", schedule=Schedule.rate(timedelta(hours=1)), schedule_payload=written)
    def remind(text: str) -> None:
        told.append(text)

    jobs = Harness(app)
    jobs.clock.advance(timedelta(hours=1))
    jobs.drain()
    assert told == [written]


def test_a_declared_schedule_can_be_paused_in_a_test() -> None:
    app = scheduled_app()
    jobs = Harness(app)
    jobs.client.schedules.pause("nightly")
    jobs.clock.advance(timedelta(days=1))
    assert jobs.submitted(app.types["nightly"]) == []
    jobs.client.schedules.resume("nightly")
    jobs.clock.advance(timedelta(days=1))
    assert len(jobs.submitted(app.types["nightly"])) == 1


def isolated_app() -> App:
    app = App("apart")
    app.job("crunch", isolation="process")(_nothing)
    return app


def test_a_handler_that_may_end_its_process_is_refused_in_words() -> None:
    app = isolated_app()
    jobs = Harness(app)
    jobs.client.submit(app.types["crunch"])
    with pytest.raises(ConfigurationError, match=r"Harness\(app, isolation='worker'\)"):
        jobs.drain()
    with pytest.raises(ConfigurationError, match="'crunch' has isolation='process'"):
        jobs.run(app.types["crunch"])


def test_a_harness_has_no_processes_for_handlers_to_run_in(app: App) -> None:
    processes: Any = "process"
    with pytest.raises(ConfigurationError, match="no child processes: write isolation='worker'"):
        Harness(app, isolation=processes)


def test_it_runs_in_the_test_s_process_if_the_harness_is_told_so() -> None:
    app = isolated_app()
    jobs = Harness(app, isolation="worker")
    jobs.client.submit(app.types["crunch"])
    jobs.drain()
    assert len(jobs.completed(app.types["crunch"])) == 1
    assert jobs.run(app.types["crunch"]) == Done(result=None)


def test_a_result_that_json_can_not_hold_fails_its_job_in_a_test_too(app: App) -> None:
    @app.job("odd")
    def odd() -> object:
        return object()

    jobs = Harness(app)
    outcome = jobs.run(odd)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, ResultNotSerializable)
    jobs.client.submit(odd)
    jobs.drain()
    [letter] = jobs.dead_letters(odd)
    assert letter.attributes["ErrorType"] == "ResultNotSerializable"
