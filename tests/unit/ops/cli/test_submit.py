"""``headgate submit``."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from headgate import App, Client
from headgate.jobs.core.ports.table import Item, Table
from headgate.jobs.core.ports.transport import Sender
from headgate.jobs.errors import QueueMissing
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.job_options import JobKeep
from headgate.jobs.messages.signatures import Destination, SigningKey, parted, signed
from headgate.jobs.testing import MemorySqs, MemoryTable, VirtualClock
from headgate.ops.views.job import EXIT_FAILED, EXIT_UNFINISHED
from tests.support.backends import over
from tests.support.command_line import CommandLine, Ended
from tests.support.story import Story

ADA = '{"to": "ada"}'


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> MemorySqs:
    """The SQS that the command submits to, in place of AWS."""
    sqs = MemorySqs(VirtualClock())

    def client(app: App, *, transport: Sender | None = None) -> Client:
        sqs.provision(app.topology)
        return Client(app, backend=over(transport or sqs.sync))

    monkeypatch.setattr("headgate.jobs.client.client.Client", client)
    return sqs


def test_submit_prints_the_id_of_the_job_that_sqs_has(
    sqs: MemorySqs, headgate: CommandLine, here: Path
) -> None:
    shop = here / "cli_shop.py"
    own = '@app.job("send-email"'
    shop.write_text(shop.read_text().replace(own, f'{own}, other_priorities=["low"]'))
    options = ["--delay", "1m30s", "--priority", "low", "--tenant", "org-1"]
    ended = headgate("submit", "send-email", ADA, *options, app="cli_shop:app")
    [message] = sqs.messages("shop-test-jobs-low")
    envelope = parse(message.body)
    assert (ended.code, ended.out, ended.err) == (0, f"{envelope.id}\n", "")
    assert envelope.payload == {"to": "ada"}
    assert message.group == "org-1"
    assert envelope.not_before == envelope.submitted_at + timedelta(seconds=90)


def test_submit_signs_what_it_sends(sqs: MemorySqs, headgate: CommandLine, here: Path) -> None:
    key = b"a key of thirty-two bytes or more"
    with (here / "cli_shop.py").open("a") as source:
        source.write(f"from headgate import Signing\napp.signing = Signing(keys=[{key!r}])\n")
    ended = headgate("submit", "send-email", ADA, app="cli_shop:app")
    [message] = sqs.messages("shop-test-jobs-normal")
    text, signature = parted(message.body)
    assert (ended.code, ended.err) == (0, "")
    assert signature is not None
    queue = Destination(queue="shop-test-jobs-normal")
    assert signed(text, SigningKey(key), queue) == message.body


def test_every_option_of_a_submission_is_one_of_the_command(
    sqs: MemorySqs, headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = MemoryTable(VirtualClock()).sync

    def client(app: App) -> Client:
        sqs.provision(app.topology)
        return Client(app, backend=over(sqs.sync, table=table))

    monkeypatch.setattr("headgate.jobs.client.client.Client", client)
    options = ["--at", "2020-01-31T08:00:00Z", "--max-attempts", "7"]
    options += ["--attempt-timeout", "1m30s", "--unique-for", "1h"]
    options += ["--keep", "1d", "--keep-failed", "60d"]
    first, again = (
        headgate("submit", "send-email", ADA, *options, app="cli_shop:app") for _ in range(2)
    )
    [message] = sqs.messages("shop-test-jobs-normal")
    envelope = parse(message.body)
    assert first.out == again.out == f"{envelope.id}\n", "equal submissions count as one"
    assert envelope.options is not None
    assert (envelope.options.attempts, envelope.options.timeout_s) == (7, 90)
    assert envelope.options.unique is not None
    assert envelope.options.unique.for_s == 3600
    assert envelope.options.keep == JobKeep(completed_s=86_400, failed_s=5_184_000)


def test_failures_alone_may_be_kept_for_longer(sqs: MemorySqs, headgate: CommandLine) -> None:
    assert headgate("submit", "nightly", "--keep-failed", "60d", app="cli_shop:app").code == 0
    [message] = sqs.messages("shop-test-jobs-normal")
    options = parse(message.body).options
    assert options is not None
    of_app = App("shop").keep.completed
    assert options.keep == JobKeep(completed_s=of_app.total_seconds(), failed_s=5_184_000)


def test_submit_needs_no_payload_for_a_job_that_has_none(
    sqs: MemorySqs, headgate: CommandLine
) -> None:
    assert headgate("submit", "nightly", app="cli_shop:app").code == 0
    [message] = sqs.messages("shop-test-jobs-normal")
    assert parse(message.body).payload == {}


def test_submit_reads_the_payload_from_standard_input_for_a_dash(
    sqs: MemorySqs, headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{ADA}\n"))
    assert headgate("submit", "send-email", "-", app="cli_shop:app").code == 0
    assert len(sqs.messages("shop-test-jobs-normal")) == 1


@pytest.mark.parametrize(
    ("app", "arguments", "said"),
    [
        ("cli_shop", ["send-email", "{}"], "'cli_shop' is not an app path"),
        ("cli_none:app", ["send-email", "{}"], "there is no module 'cli_none'"),
        ("cli_shop:app", ["send-mail", "{}"], "no job type 'send-mail': did you mean 'send-email'"),
        ("cli_shop:app", ["send-email", "{}"], "payload of 'send-email' is not valid: to: Field"),
        ("cli_shop:app", ["send-email", ADA, "--delay", "9999999d"], "after the year 9999"),
        ("cli_shop:app", ["send-email", ADA, "--tenant", "a b"], "tenant must be"),
        ("cli_shop:app", ["send-email", ADA, "--group", "a"], "group orders the jobs of a FIFO"),
        ("cli_shop:app", ["send-email", ADA, "--unique-for", "366d"], "at most 365 days"),
        ("cli_shop:app", ["send-email", ADA, "--at", "2030-01-31"], "has no time zone"),
    ],
)
@pytest.mark.usefixtures("sqs")
def test_an_invalid_submission_prints_one_line_and_exits_with_2(
    app: str, arguments: list[str], said: str, headgate: CommandLine
) -> None:
    ended = headgate("submit", *arguments, app=app)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("headgate: ")
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["send-email", "{to: a}"], "the payload is not JSON"),
        (["send-email", "{}", "--delay", "soon"], "'soon' is not a duration"),
        (["send-email", "{}", "--at", "soon"], "'soon' is not a time: write 2030-01-31T08:00:00Z"),
        (["send-email", "{}", "--priority", "urgent"], "'urgent' is not one of"),
        (["send-email", ADA, "--priority", "high"], "other_priorities=['high']"),
        (["send-email", ADA, "--timeout", "5s"], "add --wait, or give the job itself a timeout"),
    ],
)
@pytest.mark.usefixtures("sqs")
def test_an_argument_at_fault_is_explained_with_exit_code_2(
    arguments: list[str], said: str, headgate: CommandLine
) -> None:
    ended = headgate("submit", *arguments, app="cli_shop:app")
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_an_error_of_aws_is_one_line_and_exit_code_1(
    headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def client(app: App) -> Client:
        return Client(app, backend=over(MemorySqs(VirtualClock()).sync))

    monkeypatch.setattr("headgate.jobs.client.client.Client", client)
    ended = headgate("submit", "send-email", ADA, app="cli_shop:app")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"headgate: {QueueMissing('shop-test-jobs-normal')}\n"


# --- --wait --------------------------------------------------------------------------------------


@pytest.fixture
def waiting(table: Table, headgate: CommandLine) -> Callable[..., Ended]:  # noqa: ARG001 - in place of AWS's
    """Submit a job and wait for it."""

    def run(*options: str, app: str = "cli_shop:app") -> Ended:
        return headgate("submit", "send-email", ADA, "--wait", *options, app=app)

    return run


def _ending(table: Table, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every requested job one that has just ended."""
    query = table.query

    def ended(pk: str, *, prefix: str = "") -> list[Item]:
        story = Story(pk.removeprefix("job#"), job_type="send-email").run(
            1, kind, result=7, reason="because"
        )
        table.put(story.items)
        return query(pk, prefix=prefix)

    monkeypatch.setattr(table, "query", ended)


def test_who_waits_gets_the_id_and_then_the_result(
    table: Table, waiting: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    _ending(table, "completed", monkeypatch)
    ended = waiting()
    assert ended.code == 0, ended.err
    job_id, printed = ended.out.splitlines()
    assert (len(job_id), printed) == (36, "7")


def test_who_waits_for_a_job_that_fails_hears_why(
    table: Table, waiting: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    _ending(table, "dead", monkeypatch)
    ended = waiting()
    assert ended.code == EXIT_FAILED
    assert "is dead: because" in ended.err


def test_who_waits_in_vain_is_told_the_state(waiting: Callable[..., Ended]) -> None:
    ended = waiting("--timeout", "2m")
    assert ended.code == EXIT_UNFINISHED
    assert "within 120 s; its state is waiting" in ended.err


def test_what_can_never_be_awaited_is_not_even_submitted(waiting: Callable[..., Ended]) -> None:
    ended = waiting(app="cli_shop:silent")
    assert (ended.code, ended.out) == (2, "")
    assert "--wait needs a type with records" in ended.err
