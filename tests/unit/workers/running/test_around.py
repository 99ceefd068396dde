"""Code around every attempt, and resources of one attempt: the same in every host."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from datetime import timedelta
from typing import Annotated, Any

import pytest

from headgate import App, Backoff, Discard, DoNotRetry, JobContext, Queue, Retry, RetryLater
from headgate.errors import ConfigurationError
from headgate.events import (
    JobCancelled,
    JobCompleted,
    JobDeadLettered,
    JobDeferred,
    JobDiscarded,
    JobFailed,
    JobInterrupted,
    JobSubmitted,
)
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.definitions.handlers.context import request_stop
from headgate.jobs.definitions.policies import load_handlers
from headgate.jobs.execution.calling.surroundings import CLOSING_S
from headgate.testing import Done, Failed, Harness
from tests.unit.workers.rig import MAIL, Note, Rig, one_lane
from tests.unit.workers.running.hosts import HOSTS, Host
from tests.unit.workers.running.test_cancelling import cancel

ONE, TWO = (
    Retry(max_attempts=1),
    Retry(max_attempts=2, backoff=Backoff.fixed(1)),
)

everywhere = pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)

TIMEOUT = timedelta(seconds=10)
"""Passes at once where nothing but the loop is under way; while a thread runs, in real time."""


class Pool:
    """Stands for a database pool, opened once per process."""


class Session:
    """Stands for a session of one attempt."""

    def __init__(self, pool: Pool | None = None) -> None:
        self.pool = pool
        self.is_open = True


class Told(list[str]):
    """The things that happened, in order."""

    def scope(self, app: App, *, plain: bool = False) -> None:
        """Declare a pool, and a session for each attempt that tells how it was left."""

        @app.resource
        async def pool() -> AsyncIterator[Pool]:
            self.append("pool")
            yield Pool()

        async def session(pool: Pool) -> AsyncIterator[Session]:
            with self.opened(pool) as opened:
                yield opened

        def plain_session(pool: Pool) -> Iterator[Session]:
            with self.opened(pool) as opened:
                yield opened

        app.resource(scope="job")(plain_session if plain else session)

    def opened(self, pool: Pool) -> _Telling:
        return _Telling(self, pool)

    def wrap(self, app: App, name: str) -> None:
        """Declare an around that tells when it is entered, and how it is left."""

        @app.around
        async def around(ctx: JobContext) -> AsyncIterator[None]:
            self.append(f"{name} {ctx.attempt}")
            try:
                yield
            except BaseException as error:
                self.append(f"{name} {type(error).__name__}")
                raise
            self.append(f"{name} ended")


class _Telling:
    def __init__(self, told: Told, pool: Pool) -> None:
        self._told = told
        self._session = Session(pool)

    def __enter__(self) -> Session:
        self._told.append("open")
        return self._session

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        self._session.is_open = False
        self._told.append(f"close {kind.__name__}" if kind else "close")


def declared(
    queue: Queue, *, plain: bool, fails: type[BaseException] | None = None, **options: Any
) -> Any:
    """Declare a job whose handler takes a session, and fails at its first attempt if so told."""

    def act(ctx: JobContext, session: Session) -> str:
        assert session.is_open
        assert isinstance(session.pool, Pool)
        if fails is not None and ctx.attempt == 1:
            raise fails("wrong")
        return "result"

    async def run(_note: Note, ctx: JobContext, session: Session) -> str:
        return act(ctx, session)

    def run_plainly(_note: Note, ctx: JobContext, session: Session) -> str:
        return act(ctx, session)

    return queue.job("send", **options)(run_plainly if plain else run)


# --- order ---------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("plain_session", [False, True])
def test_arounds_nest_in_order_and_each_attempt_has_a_session_of_its_own(
    host: Host, plain: bool, plain_session: bool
) -> None:
    app, queue = one_lane(retry=TWO)
    told = Told()
    told.wrap(app, "outer")
    told.wrap(app, "inner")
    told.scope(app, plain=plain_session)
    job = declared(queue, plain=plain, fails=ConnectionError)
    events = host(app, job, ["a"])
    assert [type(each) for each in events if isinstance(each, JobFailed | JobCompleted)] == [
        JobFailed,
        JobCompleted,
    ]
    told.remove("pool")
    failed = ["ConnectionError"] * 3
    assert told == [
        *("outer 1", "inner 1", "open"),
        *(f"{name} {kind}" for name, kind in zip(("close", "inner", "outer"), failed, strict=True)),
        *("outer 2", "inner 2", "open", "close", "inner ended", "outer ended"),
    ]


@everywhere
def test_a_pool_of_the_process_is_shared_by_all_attempts(host: Host) -> None:
    app, queue = one_lane()
    told = Told()
    told.scope(app)
    host(app, declared(queue, plain=False), ["a", "b", "c"])
    assert told.count("pool") == 1
    assert told.count("open") == told.count("close") == 3


@pytest.mark.parametrize("plain", [False, True])
def test_a_session_of_one_type_s_attempt_is_not_another_type_s(plain: bool) -> None:
    app = App("shop")
    told = Told()
    told.scope(app, plain=plain)
    open_ones: list[Session] = []

    @app.job("first")
    def first(_note: Note, session: Session) -> None:
        assert session.is_open
        open_ones.append(session)

    @app.job("second")
    def second(_note: Note, session: Session) -> None:
        assert session.is_open
        open_ones.append(session)

    jobs = Harness(app)
    jobs.client.submit_many([first.new(Note()), second.new(Note())])
    jobs.drain()
    assert len(set(open_ones)) == 2
    assert told == ["pool", *("open", "close") * 2]


@everywhere
def test_an_around_and_the_handler_get_the_same_session_of_an_attempt(host: Host) -> None:
    app, queue = one_lane()
    told = Told()
    told.wrap(app, "first")
    told.scope(app)
    seen: list[Session] = []

    @app.around
    async def transaction(session: Session, _ctx: JobContext) -> AsyncIterator[None]:
        seen.append(session)
        yield
        assert session.is_open
        told.append("commit")

    @queue.job("send")
    def send(_note: Note, session: Session) -> None:
        seen.append(session)

    host(app, send, ["a"])
    assert seen[0] is seen[1]
    told.remove("pool")
    assert told == ["first 1", "open", "commit", "close", "first ended"]


@everywhere
@pytest.mark.parametrize("plain", [False, True])
def test_what_an_around_sets_in_the_context_the_handler_sees(host: Host, plain: bool) -> None:
    app, queue = one_lane()
    outer: ContextVar[str] = ContextVar("outer", default="")
    inner: ContextVar[str] = ContextVar("inner", default="")
    seen: list[tuple[str, str]] = []

    @app.around
    async def asynchronous() -> AsyncIterator[None]:
        outer.set("set")
        yield

    @app.around
    def synchronous() -> Iterator[None]:
        inner.set("set")
        yield

    async def run(_note: Note) -> None:
        seen.append((outer.get(), inner.get()))

    def run_plainly(_note: Note) -> None:
        seen.append((outer.get(), inner.get()))

    host(app, queue.job("send")(run_plainly if plain else run), ["a", "b"])
    assert seen == [("set", "set")] * 2


@everywhere
def test_a_synchronous_around_runs_in_the_thread_of_the_handler(host: Host) -> None:
    app, queue = one_lane()
    told = Told()
    threads: list[int] = []

    @app.around
    def plain() -> Iterator[None]:
        threads.append(threading.get_ident())
        told.append("plain")
        yield
        threads.append(threading.get_ident())

    told.wrap(app, "async")

    @queue.job("send")
    def send(_note: Note) -> None:
        threads.append(threading.get_ident())
        told.append("handler")

    host(app, send, ["a"])
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()
    assert told == ["async 1", "plain", "handler", "async ended"]


# --- exceptions ----------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("plain_around", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_an_around_may_raise_another_error_in_place_of_the_handlers(
    host: Host, plain: bool, plain_around: bool
) -> None:
    app, queue = one_lane(retry=TWO)

    def translate() -> Iterator[None]:
        try:
            yield
        except KeyError as error:
            raise DoNotRetry("translated") from error

    async def translate_async() -> AsyncIterator[None]:
        try:
            yield
        except KeyError as error:
            raise DoNotRetry("translated") from error

    app.around(translate if plain_around else translate_async)
    Told().scope(app)
    events = host(app, declared(queue, plain=plain, fails=KeyError), ["a"])
    [dead] = [each for each in events if isinstance(each, JobDeadLettered)]
    assert dead.reason == "do-not-retry"


@everywhere
@pytest.mark.parametrize("plain_around", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_an_attempt_whose_error_is_swallowed_has_completed(
    host: Host, plain: bool, plain_around: bool
) -> None:
    app, queue = one_lane(retry=TWO)

    def swallow() -> Iterator[None]:
        try:
            yield
        except KeyError:
            return

    async def swallow_async() -> AsyncIterator[None]:
        try:
            yield
        except KeyError:
            return

    app.around(swallow if plain_around else swallow_async)
    Told().scope(app)
    job = declared(queue, plain=plain, fails=KeyError)
    events = host(app, job, ["a"])
    assert [type(each) for each in events if isinstance(each, JobFailed | JobCompleted)] == [
        JobCompleted
    ]
    assert Harness(app).run(job, Note()) == Done(result=None)
    assert Harness(app).run(job, Note(), attempt=2) == Done(result="result")


@everywhere
@pytest.mark.parametrize("before", [True, False])
def test_a_failure_of_an_around_is_a_failure_of_the_attempt(host: Host, before: bool) -> None:
    app, queue = one_lane(retry=ONE)
    ran: list[str] = []

    @app.around
    async def broken() -> AsyncIterator[None]:
        if before:
            raise ConnectionError("no tracer")
        yield
        raise ConnectionError("no tracer")

    @queue.job("send")
    async def send(note: Note) -> None:
        ran.append(note.text)

    failures: list[JobFailed] = []

    @app.on_failed
    async def note(event: JobFailed) -> None:
        failures.append(event)

    events = host(app, send, ["a"])
    [failed] = [each for each in events if isinstance(each, JobFailed)]
    assert failed.error_message == "no tracer"
    if host is not HOSTS["function"]:  # which calls no hooks
        assert failures == [failed]
    assert ran == ([] if before else ["a"])


@everywhere
@pytest.mark.parametrize(
    ("signal", "kind"),
    [
        (RetryLater(timedelta(seconds=1)), JobDeferred),
        (Discard("not needed"), JobDiscarded),
        (DoNotRetry("hopeless"), JobDeadLettered),
    ],
)
@pytest.mark.parametrize("by_around", [False, True])
def test_a_signal_passes_through_arounds_and_may_come_from_one(
    host: Host, signal: Exception, kind: type[Any], by_around: bool
) -> None:
    app, queue = one_lane(retry=TWO)
    told = Told()
    told.wrap(app, "outer")
    raised: list[Exception] = []

    def steer() -> None:
        if not raised:
            raised.append(signal)
            raise signal

    @app.around
    async def steering() -> AsyncIterator[None]:
        if by_around:
            steer()
        yield

    @queue.job("send")
    def send(_note: Note) -> None:
        steer()

    events = host(app, send, ["a"])
    assert any(isinstance(each, kind) for each in events)
    assert told[:2] == ["outer 1", f"outer {type(signal).__name__}"]


# --- timeouts ------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("plain", [False, True])
def test_an_around_that_hangs_before_the_handler_ends_with_the_timeout(
    host: Host, plain: bool
) -> None:
    app, queue = one_lane(retry=ONE)
    told = Told()
    told.scope(app)

    @app.around
    async def hanging(_session: Session) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    job = declared(queue, plain=plain, timeout=TIMEOUT)
    [failed] = [each for each in host(app, job, ["a"]) if isinstance(each, JobFailed)]
    assert failed.error_message == (
        "'send' ran past its timeout of 10 s, before its handler was called"
    )
    assert told == ["pool", "open", "close JobTimeout"]


@everywhere
@pytest.mark.parametrize("plain", [False, True])
def test_arounds_that_hang_after_the_handler_end_with_the_timeout(host: Host, plain: bool) -> None:
    app, queue = one_lane(retry=ONE)
    told = Told()
    told.scope(app)
    for _ in range(2):

        @app.around
        async def hanging() -> AsyncIterator[None]:
            try:
                yield
            finally:
                await asyncio.Event().wait()

    job = declared(queue, plain=plain, timeout=TIMEOUT)
    [failed] = [each for each in host(app, job, ["a"]) if isinstance(each, JobFailed)]
    assert failed.error_message == (
        "'send' ran past its timeout of 10 s, after its handler had ended"
    )
    assert told == ["pool", "open", "close"]


@everywhere
def test_an_around_sees_the_timeout_of_the_handler_and_has_time_to_clean_up(host: Host) -> None:
    app, queue = one_lane(retry=ONE)
    told = Told()
    told.wrap(app, "outer")

    @app.around
    async def cleaning() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.sleep(0.1)
            told.append("cleaned")

    @queue.job("send", timeout=TIMEOUT)
    async def send(_note: Note) -> None:
        await asyncio.Event().wait()

    [failed] = [each for each in host(app, send, ["a"]) if isinstance(each, JobFailed)]
    assert failed.error_message == "'send' ran past its timeout of 10 s"
    assert told == ["outer 1", "cleaned", "outer JobTimeout"]


@everywhere
@pytest.mark.parametrize("before", [True, False])
def test_a_timeout_of_an_around_s_own_is_not_the_job_s(host: Host, before: bool) -> None:
    app, queue = one_lane(retry=ONE)

    @app.around
    async def connecting() -> AsyncIterator[None]:
        if before:
            raise TimeoutError("no database")
        yield
        raise TimeoutError("no database")

    @queue.job("send")
    async def send(_note: Note) -> None: ...

    [failed] = [each for each in host(app, send, ["a"]) if isinstance(each, JobFailed)]
    assert (failed.error_type, failed.error_message) == ("TimeoutError", "no database")


@pytest.mark.looptime
async def test_what_comes_after_a_long_timeout_is_bounded_by_the_closing_time() -> None:
    app, queue = one_lane(retry=ONE)
    for _ in range(2):

        @app.around
        async def slow() -> AsyncIterator[None]:
            try:
                yield
            finally:
                await asyncio.sleep(10_000)

    @queue.job("send", timeout=timedelta(minutes=10))
    async def send(_note: Note) -> None:
        await asyncio.Event().wait()

    rig = Rig(app)
    await rig.submit(send)
    async with rig.working():
        [failed] = await rig.happens(JobFailed)
    assert failed.ran_s == pytest.approx(600 + CLOSING_S, abs=1)


# --- ends from outside ---------------------------------------------------------------------------


def waiting_job(app: App, queue: Queue, entered: asyncio.Event) -> tuple[Any, Told]:
    """Declare a job that waits for ever, with a session, and an around that swallows everything."""
    told = Told()
    told.scope(app)

    @app.around
    async def greedy() -> AsyncIterator[None]:
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - what no around should do
            told.append(f"swallowed {type(error).__name__}")

    @queue.job("send")
    async def send(_note: Note, _session: Session) -> None:
        entered.set()
        await asyncio.Event().wait()

    return send, told


@pytest.mark.looptime
async def test_a_cancelled_job_closes_its_session_despite_a_swallowing_around() -> None:
    app, queue = one_lane()
    entered = asyncio.Event()
    send, told = waiting_job(app, queue, entered)
    rig = Rig(app)
    [job_id] = await rig.submit(send)
    async with rig.working():
        await entered.wait()
        await cancel(rig, job_id)
        await rig.happens(JobCancelled)
    assert told == ["pool", "open", "close CancelledError", "swallowed CancelledError"]
    assert rig.remaining() == 0


@pytest.mark.looptime
async def test_a_stopping_worker_closes_sessions_and_gives_their_jobs_back() -> None:
    app, queue = one_lane()
    entered = asyncio.Event()
    send, told = waiting_job(app, queue, entered)
    rig = Rig(app)
    await rig.submit(send)
    async with rig.working(drain=timedelta(seconds=3)):
        await entered.wait()
    assert len(rig.heard(JobInterrupted)) == rig.remaining() == 1
    assert told == ["pool", "open", "close CancelledError", "swallowed CancelledError"]


@pytest.mark.looptime
@pytest.mark.parametrize("before", [True, False])
async def test_a_stop_ends_code_before_a_thread_and_spares_what_comes_after_it(
    before: bool,
) -> None:
    app, queue = one_lane()
    entered, ran = asyncio.Event(), list[str]()

    @app.around
    async def slow() -> AsyncIterator[None]:
        if before:
            entered.set()
            await asyncio.sleep(60)
        yield
        entered.set()
        await asyncio.sleep(4)
        ran.append("committed")

    @queue.job("send")
    def send(note: Note) -> None:
        ran.append(note.text)

    rig = Rig(app)
    await rig.submit(send, "a")
    async with rig.working(drain=timedelta(seconds=3)):
        await entered.wait()
    if before:
        assert ran == []
        assert rig.remaining() == 1
    else:
        assert ran[0] == "a"
        assert (len(ran) == 2) == (rig.remaining() == 0)


@pytest.mark.parametrize("plain_around", [False, True])
def test_a_stop_that_a_synchronous_handler_raises_can_not_be_swallowed(plain_around: bool) -> None:
    app = App("shop")

    def greedy() -> Iterator[None]:
        try:
            yield
        except BaseException:  # noqa: BLE001 - what no around should do
            return

    async def greedy_async() -> AsyncIterator[None]:
        try:
            yield
        except BaseException:  # noqa: BLE001 - what no around should do
            return

    app.around(greedy if plain_around else greedy_async)

    @app.job("send")
    def send(_note: Note, ctx: JobContext) -> None:
        request_stop(ctx)
        ctx.raise_if_cancelled()

    outcome = Harness(app).run(send, Note())
    assert isinstance(outcome, Failed)
    assert type(outcome.error).__name__ == "Stopped"


# --- once, submissions, loops --------------------------------------------------------------------


@everywhere
def test_around_a_job_that_runs_once_nothing_is_entered_when_it_does_not_run(host: Host) -> None:
    app, queue = one_lane()
    told = Told()
    told.wrap(app, "outer")
    job = declared_once(queue)
    host(app, job, ["a"])
    assert told == ["outer 1", "outer ended"]


def test_a_job_that_is_done_already_enters_nothing_at_its_second_message() -> None:
    app, queue = one_lane()
    told = Told()
    told.wrap(app, "outer")
    job = declared_once(queue)
    jobs = Harness(app)
    jobs.client.submit(job, Note())
    [first] = jobs.sqs.messages(MAIL)
    jobs.drain()
    again = OutgoingMessage(body=first.body, attributes=first.attributes)
    jobs.sqs.sync.send(MAIL, [again])
    jobs.drain()
    assert told == ["outer 1", "outer ended"]


def declared_once(queue: Queue) -> Any:
    @queue.job("send", once=True)
    async def send(_note: Note) -> None: ...

    return send


@everywhere
def test_jobs_submitted_by_an_around_are_sent_before_the_job_completes(
    host: Host,
) -> None:
    app, queue = one_lane()
    audited: list[str] = []

    @queue.job("audit")
    async def audit(note: Note) -> None:
        audited.append(note.text)

    @app.around
    async def auditing(ctx: JobContext) -> AsyncIterator[None]:
        yield
        if ctx.type == "send":
            _ = ctx.submit(audit, Note(text=ctx.id))

    @queue.job("send")
    def send(_note: Note) -> None: ...

    events = host(app, send, ["a"])
    [sent] = [e for e in events if isinstance(e, JobCompleted) and e.job_type == "send"]
    [told] = [e for e in events if isinstance(e, JobSubmitted) and e.job_type == "audit"]
    assert events.index(told) < events.index(sent)
    if host is HOSTS["harness"] or host is HOSTS["function"]:
        assert audited == [sent.job_id]


def test_two_resources_of_a_type_are_told_apart_by_their_metadata() -> None:
    app = App("shop")
    seen: list[Any] = []

    @app.resource
    async def primary() -> AsyncIterator[Pool]:
        yield Pool()

    @app.resource
    def replica(primary: Pool) -> Iterator[Annotated[Pool, "replica"]]:
        seen.append(primary)
        yield Pool()

    @app.resource(scope="job")
    async def session(pool: Annotated[Pool, "replica"]) -> AsyncIterator[Session]:
        yield Session(pool)

    @app.job("send")
    async def send(
        _note: Note, session: Session, one: Pool, two: Annotated[Pool, "replica"]
    ) -> None:
        seen.extend((session.pool, one, two))

    Harness(app).run(send, Note())
    opened_by, of_session, one, two = seen
    assert opened_by is one
    assert of_session is two
    assert one is not two


# --- what is refused -----------------------------------------------------------------------------


def refused(declare: Callable[[App], object]) -> str:
    app = App("shop")
    try:
        declare(app)
        load_handlers(app)
    except ConfigurationError as error:
        return str(error)
    raise AssertionError("it was not refused")


def test_resources_in_a_cycle_are_refused_with_the_cycle() -> None:
    def declare(app: App) -> None:
        @app.resource
        async def pool(_session: Session) -> AsyncIterator[Pool]:
            yield Pool()

        @app.resource
        async def session(_pool: Pool) -> AsyncIterator[Session]:
            yield Session()

    assert refused(declare) == "resources depend on each other in a cycle: Pool → Session → Pool"


def test_a_process_resource_can_not_take_an_attempt_resource_or_a_context() -> None:
    def wants_session(app: App) -> None:
        @app.resource(scope="job")
        async def session() -> AsyncIterator[Session]:
            yield Session()

        @app.resource
        async def pool(_session: Session) -> AsyncIterator[Pool]:
            yield Pool()

    def wants_context(app: App) -> None:
        @app.resource
        async def pool(_ctx: JobContext) -> AsyncIterator[Pool]:
            yield Pool()

    assert 'needs a Session, which is opened for each attempt: declare it with scope="job"' in (
        refused(wants_session)
    )
    assert "opened once for all jobs and has no job's context" in refused(wants_context)


def test_an_async_function_can_not_take_a_synchronous_attempt_resource() -> None:
    def declare(app: App) -> None:
        @app.resource(scope="job")
        def session() -> Iterator[Session]:
            yield Session()

        @app.around
        async def transaction(_session: Session) -> AsyncIterator[None]:
            yield

    said = refused(declare)
    assert "transaction is asynchronous and needs a Session, which is opened after it" in said
    assert said.endswith("session an async generator")


@pytest.mark.parametrize("wrong", [Pool, lambda: None])
def test_an_around_must_be_a_generator_function_whose_parameters_can_be_given(wrong: Any) -> None:
    assert "must be a generator function that yields once, where the handler runs" in refused(
        lambda app: app.around(wrong)
    )

    def wants_pool(app: App) -> None:
        @app.around
        async def around(_pool: Pool) -> AsyncIterator[None]:
            yield

    assert "around needs a Pool, and the app has no resource of that type" in refused(wants_pool)

    def wants_text(app: App) -> None:
        @app.around
        async def around(_name: str) -> AsyncIterator[None]:
            yield

    assert "has a parameter '_name' that nothing can be passed to" in refused(wants_text)


def test_a_scope_and_metadata_are_checked() -> None:
    def scope(app: App) -> None:
        wrong: Any = "attempt"

        @app.resource(scope=wrong)
        async def pool() -> AsyncIterator[Pool]:
            yield Pool()

    def metadata(app: App) -> None:
        @app.resource
        async def pool() -> AsyncIterator[Annotated[Pool, ["replica"]]]:
            yield Pool()

    assert "scope must be 'worker' or 'job', got 'attempt'" in refused(scope)
    assert "whose metadata is not hashable" in refused(metadata)


# --- replacements --------------------------------------------------------------------------------


def test_the_harness_opens_nothing_that_only_replaced_resources_take() -> None:
    app = App("shop")
    told = Told()
    told.scope(app)
    seen: list[Session] = []

    @app.job("send")
    def send(_note: Note, session: Session) -> None:
        seen.append(session)

    fake = Session()
    jobs = Harness(app, resources={Session: fake})
    assert jobs.run(send, Note()) == Done(result=None)
    jobs.client.submit(send, Note())
    jobs.drain()
    assert seen == [fake, fake]
    assert told == []

    pool = Pool()
    Harness(app, resources={Pool: pool}).run(send, Note())
    assert seen[-1].pool is pool
    assert told == ["open", "close"]


def test_a_replacement_of_nothing_is_refused_with_what_there_is() -> None:
    app = App("shop")
    Told().scope(app)

    @app.job("send")
    def send(_note: Note) -> None: ...

    jobs = Harness(app, resources={Annotated[Pool, "replica"]: Pool()})
    with pytest.raises(ConfigurationError, match=r"no resource of that type \(it has: Pool, Sess"):
        jobs.run(send, Note())
