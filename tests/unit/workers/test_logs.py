from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Backoff, Discard, Event, Priority, Retry, Tenant
from headgate.jobs.core import events
from headgate.jobs.core.event_log import LEVELS, log_event
from headgate.jobs.core.events import (
    BreakerOpened,
    JobCompleted,
    JobFailed,
    JobProgress,
    JobRetryScheduled,
    MessageUnrunnable,
)
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.testing import Harness
from headgate.workers.logs import configure
from tests.support.loggers import restored

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECRET = "the-secret-of-the-payload"  # noqa: S105 - of no account

Written = Callable[[], str]

VALUES: dict[str, Any] = {
    "str": "two words",
    "int": 3,
    "bool": True,
    "float": 1.5,
    "int | None": None,
    "str | None": None,
    "Priority": Priority.HIGH,
    "Priority | None": None,
    "Tenant | None": Tenant(org="org-1"),
    "datetime": NOW,
    "Literal['queue', 'type', 'tenant']": "type",
    "float | None": 2.5,
    "tuple[str, ...]": ("a", "b"),
    "Mapping[str, Any]": {"secret": 1},
}


def made(cls: type[Event], **values: Any) -> Event:
    """Return an event with some value in every field."""
    filled = {field.name: VALUES[str(field.type)] for field in fields(cls)}
    return cls(**{**filled, **values})


@pytest.fixture
def errors(capsys: pytest.CaptureFixture[str]) -> Iterator[Written]:
    """Read new text on standard error at each call; the root logger is restored at the end."""
    with restored(None, bare=True):
        yield lambda: capsys.readouterr().err


def test_every_event_has_a_level() -> None:
    emitted = {
        cls
        for _, cls in inspect.getmembers(events, inspect.isclass)
        if issubclass(cls, Event) and "name" in vars(cls)
    }
    assert LEVELS.keys() == emitted


def test_a_breaker_among_those_of_many_keys_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headgate")
    log_event(made(BreakerOpened, key="acme"))
    [record] = caplog.records
    assert record.levelno == logging.INFO
    assert "key=acme" in record.getMessage()


@pytest.mark.parametrize("cls", LEVELS, ids=lambda cls: cls.name)
def test_every_event_is_one_line_of_json_with_its_fields(cls: type[Event], errors: Written) -> None:
    configure(level=logging.DEBUG, json=True)
    log_event(made(cls))
    [line] = errors().splitlines()
    record = json.loads(line)
    # `made` gives a retry a fault of its custom backoff, and parks the message.
    made_so = {JobRetryScheduled: logging.WARNING, MessageUnrunnable: logging.ERROR}
    assert record["level"] == logging.getLevelName(made_so.get(cls, LEVELS[cls]))
    assert record["logger"] == "headgate.worker"
    assert record["message"] == cls.name, "the fields stand beside it"
    assert datetime.fromisoformat(record["at"]).utcoffset() == timedelta(0)
    for field in fields(cls):
        if field.name == "tenant":
            assert record["tenant"] == "org-1"
        elif field.name == "data":
            assert "secret" not in line
        elif cls is JobProgress and field.name == "note":
            assert "note" not in record
        elif field.name == "job_types":
            assert record["job_types"] == ["a", "b"]
        elif str(field.type) == "datetime":
            assert datetime.fromisoformat(record[field.name]).utcoffset() == timedelta(0)
        else:
            assert record[field.name] == VALUES[str(field.type)]


@pytest.mark.parametrize("cls", LEVELS, ids=lambda cls: cls.name)
def test_a_plain_line_stays_one_line_whatever_an_error_says(
    cls: type[Event], errors: Written
) -> None:
    configure(level=logging.DEBUG, json=False)
    texts = {field.name: "a\nFORGED\u2028LINE" for field in fields(cls) if field.type == "str"}
    log_event(made(cls, **{**texts, **({"traceback": ""} if cls is JobFailed else {})}))
    assert len(errors().splitlines()) == 1


def test_a_failure_s_traceback_is_a_field_in_json_and_below_the_line_in_plain(
    errors: Written,
) -> None:
    failed = made(JobFailed, traceback="Traceback:\n  here\n")
    configure(json=True)
    log_event(failed)
    assert json.loads(errors())["traceback"] == "Traceback:\n  here\n"
    configure(json=False)
    log_event(failed)
    assert errors().rstrip().endswith("\nTraceback:\n  here")


def test_what_a_terminal_would_obey_is_escaped_in_a_plain_log(errors: Written) -> None:
    configure(json=False)
    logging.getLogger("headgate.job.send-email").warning("to \x1b[2J\u202e\x9b5m\nand on")
    assert errors().endswith("to \\x1b[2J\\u202e\\x9b5m\nand on\n")


def test_below_the_chosen_level_nothing_is_written(errors: Written) -> None:
    configure(level=logging.WARNING, json=True)
    log_event(made(JobCompleted))
    assert errors() == ""


def test_the_aws_sdks_never_log_their_requests(errors: Written) -> None:
    configure(level=logging.DEBUG, json=True)
    for name in ("botocore.endpoint", "aiobotocore.client", "boto3.resources"):
        logging.getLogger(name).debug("the request")
    assert errors() == ""


def test_where_standard_error_is_no_terminal_the_log_is_json(errors: Written) -> None:
    configure()
    logging.getLogger("headgate.job.send-email").warning("hello", extra={"job_id": "the-id"})
    assert json.loads(errors())["job_id"] == "the-id"


# --- payloads ------------------------------------------------------------------------------------


class Secret(BaseModel):
    text: str
    number: int = 0


def fail(_payload: Secret) -> None:
    raise TimeoutError("no answer")


def discard(_payload: Secret) -> None:
    raise Discard("stale")


def test_no_line_ever_shows_a_payload_however_its_job_ends(errors: Written) -> None:
    app = App("shop", stage="test", parking=Retry(max_attempts=1))
    handlers = {"done": lambda _payload: None, "fail": fail, "discard": discard}
    for name, handler in handlers.items():
        retry = Retry(max_attempts=2, backoff=Backoff.fixed(1))
        app.define(name, Secret, retry=retry).handler(handler)
    jobs = Harness(app)
    configure(level=logging.DEBUG, json=True)
    for declared in app.types.values():
        jobs.client.submit(declared, Secret(text=SECRET), tenant="org-1")
    bodies = [
        SECRET,
        f'{{"v": 1, "id": "{SECRET}", "payload": "{SECRET}"}}',
        jobs.sqs.messages("shop-test-jobs-normal")[0].body.replace(
            '"number":0', f'"number":"{SECRET}"'
        ),
        jobs.sqs.messages("shop-test-jobs-normal")[0].body.replace(
            '"type":"done"', '"type":"none"'
        ),
    ]
    unreadable = [OutgoingMessage(body=body) for body in bodies]
    jobs.sqs.sync.send("shop-test-jobs-normal", unreadable)
    jobs.drain()
    for event in jobs.events:
        log_event(event)
    seen = {type(event) for event in jobs.events}
    assert {JobCompleted, JobFailed, JobRetryScheduled, MessageUnrunnable} <= seen
    assert sum(isinstance(event, MessageUnrunnable) for event in jobs.events) == 4
    written = errors()
    assert all(event.name in written for event in jobs.events)
    assert SECRET not in written


def test_a_line_that_a_library_logs_while_a_job_runs_names_the_job(errors: Written) -> None:
    app = App("shop")

    @app.job("send")
    def send(_payload: Secret) -> None:
        logging.getLogger("some.library").warning("slow answer")

    jobs = Harness(app)
    configure(json=True)
    handle = jobs.client.submit(send, Secret(text="x"))
    jobs.drain()
    logging.getLogger("some.library").warning("nobody's")
    during, after = (json.loads(line) for line in errors().splitlines())
    assert (during["job_id"], during["job_type"], during["attempt"]) == (handle.id, "send", 1)
    assert "job_id" not in after


LONG = "the end of it" + "x\n" * 200_000


@pytest.mark.parametrize("json_lines", [True, False])
@pytest.mark.parametrize("cls", LEVELS, ids=lambda cls: cls.name)
def test_no_text_of_an_event_makes_its_line_longer_than_a_bound(
    cls: type[Event], json_lines: bool, errors: Written
) -> None:
    configure(level=logging.DEBUG, json=json_lines)
    texts = [field.name for field in fields(cls) if field.type in ("str", "str | None")]
    log_event(made(cls, **dict.fromkeys(set(texts) - {"traceback"}, LONG)))
    assert len(errors()) < 20_000 * (len(texts) + 1)


@pytest.mark.parametrize("json_lines", [True, False])
def test_a_traceback_keeps_its_end_whatever_its_error_quotes(
    json_lines: bool, errors: Written
) -> None:
    configure(json=json_lines)
    try:
        raise ValueError(LONG)  # noqa: TRY301 - it has to have been raised
    except ValueError:
        logging.getLogger("headgate.worker").exception("processing failed")
    written = errors()
    assert "processing failed" in written
    assert len(written) < 20_000
