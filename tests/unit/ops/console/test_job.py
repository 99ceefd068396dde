"""The page of one job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr, field_serializer

from headgate import App, DoNotRetry, JobContext, JobState, JobType, Retry
from headgate.errors import ServiceUnavailable
from headgate.jobs.records.history import AttemptRecord, JobRecord
from headgate.jobs.records.items import Mark
from headgate.ops.console.access.rules import everybody
from headgate.ops.console.app import console
from headgate.ops.console.pages.jobs.timeline import timeline
from headgate.ops.console.pages.revealed import revealed_payload
from headgate.testing import Harness
from tests.support.console import MARKUP, Browser
from tests.support.statuses import NOW
from tests.unit.ops.console.conftest import Email, Shop

ID = "0196a2b4-0000-7000-8000-000000000001"


def test_a_dead_job_tells_why_and_runs_again_from_its_dead_letter(
    shop: Shop, browser: Browser
) -> None:
    job = shop.client.submit(shop.send_email, Email(to=f"bad {MARKUP}"), tenant="<b>org")
    shop.harness.drain()
    page = browser.get(f"/jobs/{job.id}")
    assert page.status == 200
    for said in ("DoNotRetry", "no such address: &lt;script&gt;", "Traceback", "Its life to scale"):
        assert said in page.text
    assert "<script>alert" not in page.text
    assert f"bad {MARKUP[:8]}" not in page.text  # the payload, which nobody has asked for
    shown = browser.get(f"/jobs/{job.id}?show=payload").text
    assert "&#34;to&#34;: &#34;bad &lt;script&gt;" in shown
    assert 'data-every="0"' in shown
    done = browser.post("/jobs/rerun", {"id": job.id, "confirmed": "1"})
    [again] = shop.harness.submitted(shop.send_email)
    assert done.headers["location"] == f"/jobs/{again.id}"
    assert browser.get(f"/jobs/{again.id}").status == 200


def test_a_job_of_a_fifo_queue_runs_again_in_the_group_that_is_given() -> None:
    app = App("shop")
    ledger = app.queue("ledger", fifo=True)
    post: JobType[int, None] = ledger.define("post", int)
    post.handler(lambda _amount: None)
    harness = Harness(app)
    job = harness.client.submit(post, 3, group="account-1")
    harness.drain()
    served = console(app, access=everybody("ada"), client=harness.client, clock=harness.clock)
    browser = Browser(served)
    assert 'name="group"' in browser.get(f"/jobs/{job.id}").text
    form = {"id": job.id, "confirmed": "1", "payload": "4", "group": "account-1"}
    assert browser.post("/jobs/rerun", form).status == 303
    [again] = harness.submitted(post)
    [message] = harness.sqs.messages("shop-ledger-normal.fifo")
    assert (again.payload, message.group) == (4, "account-1")


def test_only_jobs_of_fifo_queues_are_asked_for_a_group(shop: Shop, browser: Browser) -> None:
    job = shop.client.submit(shop.send_email, Email(to="ada"))
    shop.harness.drain()
    assert 'name="group"' not in browser.get(f"/jobs/{job.id}").text


def test_a_long_error_is_folded_and_a_short_one_is_not() -> None:
    app = App("shop")

    @app.job("fail", retry=Retry(max_attempts=1))
    async def fail(length: int) -> None:
        raise DoNotRetry("x" * length)

    harness = Harness(app)
    short, long = (harness.client.submit(fail, length) for length in (400, 2_000))
    harness.drain()
    served = console(app, access=everybody("ada"), client=harness.client, clock=harness.clock)
    browser = Browser(served)
    assert "All of it" not in browser.get(f"/jobs/{short.id}").text
    text = browser.get(f"/jobs/{long.id}").text
    assert text.count("<summary>All of it</summary>") == 2  # above, and with the attempt


def test_a_completed_job_shows_its_result_on_demand_and_runs_again_with_a_payload(
    shop: Shop, browser: Browser
) -> None:
    job = shop.client.submit(shop.send_email, Email(to="ada"))
    shop.harness.drain()
    assert "sent to ada" not in browser.get(f"/jobs/{job.id}").text
    assert "sent to ada" in browser.get(f"/jobs/{job.id}?show=result").text
    refused = browser.post("/jobs/rerun", {"id": job.id, "confirmed": "1"})
    assert "not done" in browser.get(refused.headers["location"]).text
    form = {"id": job.id, "confirmed": "1", "payload": '{"to": "bob"}'}
    assert browser.post("/jobs/rerun", form).status == 303
    [again] = shop.harness.submitted(shop.send_email)
    assert again.payload == Email(to="bob")
    shop.harness.drain()
    assert f'href="/jobs/{job.id}"' in browser.get(f"/jobs/{again.id}").text


def test_a_jobs_children_stand_on_its_page_twenty_at_a_time(shop: Shop, browser: Browser) -> None:
    async def spread(ctx: JobContext) -> None:
        for number in range(25):
            shop.later(1)
            await ctx.submit(shop.send_email, Email(to=f"bad{number}{MARKUP}"))

    parent = shop.app.define("spread")
    parent.handler(spread)
    job = shop.client.submit(parent)
    shop.harness.drain()
    children = [each.id for each in shop.harness.dead_lettered(shop.send_email)]
    first = browser.get(f"/jobs/{job.id}").text
    assert "Children" in first
    assert first.count("DoNotRetry") >= 20
    assert "<script>alert" not in first
    assert f'href="/jobs/{children[0]}"' in first
    [after] = [part.split('"')[0] for part in first.split('rel="next" href="')[1:]]
    second = browser.get(after).text
    assert [each for each in children if f'href="/jobs/{each}"' in second] == children[20:]
    assert f'href="/jobs/{job.id}">First children' in second
    child = browser.get(f"/jobs/{children[0]}").text
    assert f'href="/jobs/{job.id}"' in child
    assert "Children" not in child


def test_a_page_of_children_that_can_not_be_is_told_so(shop: Shop, browser: Browser) -> None:
    job = shop.client.submit(shop.capture, Email(to="ada"))
    assert browser.get(f"/jobs/{job.id}?after=%3Cscript%3E").status == 400


def test_children_that_can_not_be_read_hide_nothing_of_the_job(
    shop: Shop, browser: Browser
) -> None:
    job = shop.client.submit(shop.capture, Email(to="ada"))
    shop.harness.table.faults.raise_on("page", ServiceUnavailable(MARKUP), times=50)
    text = browser.get(f"/jobs/{job.id}").text
    assert "Its children can't be read" in text.replace("&#39;", "'")
    assert "Cancel this job" in text
    assert "<script>alert" not in text


def test_a_waiting_job_is_cancelled_from_its_page(shop: Shop, browser: Browser) -> None:
    job = shop.client.submit(shop.capture, Email(to="ada"))
    assert "Cancel this job" in browser.get(f"/jobs/{job.id}").text
    done = browser.post("/jobs/cancel", {"id": job.id, "confirmed": "1", "reason": MARKUP})
    assert done.headers["location"] == f"/jobs/{job.id}"
    text = browser.get(f"/jobs/{job.id}").text
    assert "cancellation was requested" in text
    assert "<script>alert" not in text
    shop.harness.drain()
    shop.later()
    assert "Run again" in browser.get(f"/jobs/{job.id}").text


def test_what_no_job_has_is_not_found(browser: Browser) -> None:
    unknown = browser.get(f"/jobs/{ID}")
    assert unknown.status == 404
    assert 'method="post"' not in unknown.text
    for name in ("none", "%3Cscript%3E", "0" * 40):
        assert browser.get(f"/jobs/{name}").status == 404


TOKEN = SecretStr("hunter2hunter2")


class Login(BaseModel):
    user: str
    password: SecretStr

    @field_serializer("password", when_used="json")
    def revealed(self, value: SecretStr) -> str:
        """Write it as it is, since the handler needs it."""
        return value.get_secret_value()


def test_fields_that_a_type_keeps_secret_are_never_shown() -> None:
    app = App("shop", records="full")
    login = app.define("login", Login, retry=Retry(max_attempts=1))

    async def refuse(login: Login) -> None:
        raise DoNotRetry(f"no user {login.user}")

    login.handler(refuse)
    harness = Harness(app)
    job = harness.client.submit(login, Login(user="ada", password=SecretStr('hunter"2')))
    harness.drain()
    served = console(app, access=everybody("ada"), client=harness.client, clock=harness.clock)
    text = Browser(served).get(f"/jobs/{job.id}?show=payload").text
    assert "&#34;user&#34;: &#34;ada&#34;" in text
    assert "hunter" not in text
    [letter] = harness.dead_letters()
    assert "hunter" in letter.body


class OldLogin(BaseModel):
    user: str = "ada"
    token: SecretStr

    @field_serializer("token", when_used="json")
    def revealed(self, value: SecretStr) -> str:
        """Write it as it is."""
        return value.get_secret_value()


class NewLogin(BaseModel):
    user: str = "ada"
    api_token: SecretStr | None = None

    @field_serializer("api_token", when_used="json")
    def revealed(self, value: SecretStr) -> str:
        """Write it as it is."""
        return value.get_secret_value()


def _logins(*, schema: int) -> tuple[App, JobType[Any, None]]:
    """Return a version of an app whose type has another name for its secret since schema 2."""
    app = App("shop", records="full")
    model: Any = OldLogin if schema == 1 else NewLogin
    upgrade = {} if schema == 1 else {1: _renamed}
    login = app.define("login", model, schema=schema, upgrade=upgrade, retry=Retry(max_attempts=1))

    async def refuse(_login: Any) -> None:
        raise DoNotRetry("no such user")

    login.handler(refuse)
    return app, login


def _renamed(payload: dict[str, Any]) -> dict[str, Any]:
    return {"api_token": payload.pop("token"), **payload}


@pytest.mark.parametrize(("written", "read"), [(1, 2), (2, 2), (2, 1)])
def test_a_payload_of_another_schema_shows_no_secret_either(written: int, read: int) -> None:
    app, login = _logins(schema=written)
    harness = Harness(app)
    payload = OldLogin(token=TOKEN) if written == 1 else NewLogin(api_token=TOKEN)
    job = harness.client.submit(login, payload)
    harness.drain()
    found = harness.client.dead_letters.show(job.id, payload=True)
    assert found is not None
    assert found.payload_schema == written
    shown = revealed_payload(_logins(schema=read)[0], found, "login")
    assert "hunter" not in shown.text
    assert shown.fault.startswith("It is of schema 2") is (read < written)
    assert bool(shown.text) is (read >= written)


# --- the timeline --------------------------------------------------------------------------------


def attempt(number: int, begin: float, end: float | None, **more: Any) -> AttemptRecord:
    return AttemptRecord(
        number=number,
        outcome=None if end is None else Mark.FAILED,
        started_at=NOW + timedelta(seconds=begin),
        ended_at=None if end is None else NOW + timedelta(seconds=end),
        worker="w",
        ran_s=None if end is None else end - begin,
        **more,
    )


def spans(record: JobRecord, now_s: float) -> list[tuple[str, float, float]]:
    found = timeline(record, NOW + timedelta(seconds=now_s))
    assert found is not None
    return [
        (each.span.kind, (each.span.begin - NOW).total_seconds(), each.span.length.total_seconds())
        for each in found.bars
    ]


def test_a_life_is_what_it_was_delayed_waited_ran_and_backed_off() -> None:
    record = JobRecord(
        id=ID,
        state=JobState.DEAD,
        submitted_at=NOW,
        not_before=NOW + timedelta(seconds=10),
        finished_at=NOW + timedelta(seconds=40),
        attempts=(attempt(1, 12, 15, retry_in_s=5.0), attempt(2, 30, 40)),
    )
    assert spans(record, 100) == [
        *(("delayed", 0, 10), ("waited", 10, 2), ("failed", 12, 3)),
        *(("backed-off", 15, 5), ("waited", 20, 10), ("failed", 30, 10)),
    ]


def test_a_running_and_a_retrying_job_live_until_now_or_their_next_attempt() -> None:
    running = JobRecord(
        id=ID, state=JobState.RUNNING, submitted_at=NOW, attempts=(attempt(1, 2, None),)
    )
    assert spans(running, 9) == [("waited", 0, 2), ("running", 2, 7)]
    retrying = JobRecord(
        id=ID,
        state=JobState.RETRYING,
        submitted_at=NOW,
        attempts=(attempt(1, 0, 1, retry_in_s=60.0),),
    )
    assert spans(retrying, 9) == [("failed", 0, 1), ("backed-off", 1, 60)]


def test_bars_stay_on_the_line_and_short_ones_are_seen() -> None:
    record = JobRecord(
        id=ID,
        state=JobState.DEAD,
        submitted_at=NOW,
        finished_at=NOW + timedelta(days=4),
        attempts=(attempt(1, 0, 0, retry_in_s=4 * 86_400.0), attempt(2, 4 * 86_400, 4 * 86_400)),
    )
    found = timeline(record, NOW)
    assert found is not None
    assert all(each.x >= 0 and each.x + each.width <= 1_000.001 for each in found.bars)
    assert min(each.width for each in found.bars) >= 3
    assert timeline(JobRecord(id=ID, state=JobState.UNKNOWN), NOW) is None


@pytest.mark.parametrize("skew_s", [-30, 30])
def test_clocks_that_differ_draw_nothing_backwards(skew_s: float) -> None:
    record = JobRecord(
        id=ID,
        state=JobState.COMPLETED,
        submitted_at=NOW + timedelta(seconds=skew_s),
        finished_at=NOW,
        attempts=(attempt(1, -5, -1), attempt(2, -3, -4)),
    )
    assert all(length >= 0 for _, _, length in spans(record, 0))
