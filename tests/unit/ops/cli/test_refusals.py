"""Wrong values of options: each is refused in words that say what is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from headgate import App, Client
from headgate.jobs.core.ports.transport import Sender
from headgate.jobs.testing import MemorySqs, VirtualClock
from headgate.ops.cli.main import EXIT_USAGE, cli
from headgate.ops.cli.refusals import in_own_words
from tests.support.backends import over
from tests.support.command_line import CommandLine

WRONG = ("nonsense", "", "-1", "1e400", "nan", "0", "99999999999999999999", "no/such/folder", "1.5")
"""Values of which each option that reads its value refuses some."""

LEAKS = ("Value error", "Input should", "validation error", "Traceback", "pydantic", "unable to")
"""Parts of messages that were written for somebody else."""


def commands(command: Any = None, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each command that does something, with the words that lead to it."""
    command = typer.main.get_command(cli) if command is None else command
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    for name, each in (inner or {}).items():
        yield from commands(each, *path, name)


def options() -> Iterator[Any]:
    """Yield each option that takes a value."""
    for path, command in commands():
        for each in command.params:
            if each.param_type_name == "option" and not getattr(each, "is_flag", False):
                yield pytest.param(command, each, id=f"{' '.join(path)} {each.opts[0]}")


def refusal(command: Any, option: Any, value: str) -> str | None:
    """Return what an option says of a value; None if it takes it for now."""
    context = command.context_class(command, info_name=command.name)
    try:
        given = (value,) if option.multiple else value
        option.process_value(context, given)
    except typer.BadParameter as error:
        error.param = error.param or option
        in_own_words(error)
        return error.format_message()
    return None


@pytest.mark.parametrize(("command", "option"), [*options()])
def test_what_an_option_says_of_a_wrong_value_was_written_for_it(command: Any, option: Any) -> None:
    said = [refusal(command, option, value) for value in WRONG]
    assert not [each for each in said if each and any(leak in each for leak in LEAKS)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("submit nightly --priority urgent", "'--priority': 'urgent' is not one of 'critical', "),
        ("submit nightly --max-attempts many", "'--max-attempts': 'many' is not a whole number\n"),
        ("submit nightly --delay soon", "'soon' is not a duration: write 90s, 15m, 1h or 1h30m"),
        ("submit nightly --at soon", "'soon' is not a time: write 2030-01-31T08:00:00Z"),
        ("submit nightly --backoff slow", "'slow' is not a duration: write 90s, 15m, 1h or 1h30m"),
        ("queues pause jobs --priority urgent", "'urgent' is not one of 'critical', 'high', "),
        ("queues list --count 0", "'--count': '0' is not a whole number of 1 or more"),
        ("jobs list --limit 0", "'--limit': '0' is not a whole number from 1 to 1000"),
        ("jobs list --limit 1.5", "'--limit': '1.5' is not a whole number from 1 to 1000"),
        ("jobs list --since x", "neither an age nor a time: write 2h or 2030-01-31T08:00:00Z"),
        ("dead-letters replay --stop-above 2", "'2' is not a number from 0 to 1\n"),
        ("dead-letters replay --rate fast", "'--rate': 'fast' is not a number\n"),
        ("dead-letters replay --set size", "'size' is not FIELD=JSON: write --set size=3"),
        ("worker --processes 65", "'--processes': '65' is not a whole number from 1 to 64"),
        ("worker --log-level loud", "there is no log level 'loud': debug, info, warning, error"),
        ("console --auth saml", "'--auth': 'saml' is not one of 'token', 'alb'"),
        ("console --port 70000", "'--port': '70000' is not a whole number from 0 to 65535"),
        ("demo --jobs 5", "'--jobs': '5' is not a whole number of 100 or more"),
        ("cost --jobs many", "'many' is not a number of jobs: write 250, 10k, 2.5M or 1G"),
        ("cost --jobs 5 --share half", "'half' is not a share: write send-email=0.5"),
        ("dev --watch no/such/folder", "'no/such/folder' does not exist"),
    ],
)
def test_a_value_of_another_form_is_refused(words: str, said: str, headgate: CommandLine) -> None:
    ended = headgate(*words.split(), app="cli_shop:app")
    assert (ended.code, ended.out) == (EXIT_USAGE, "")
    assert said in ended.err
    assert not [leak for leak in LEAKS if leak in ended.err]


@pytest.fixture
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the commands' clients work in memory, and no worker configure this process's log."""
    monkeypatch.setattr("headgate.workers.logs.configure", lambda **_: None)
    sqs = MemorySqs(VirtualClock())

    def client(app: App, *, transport: Sender | None = None) -> Client:
        sqs.provision(app.topology)
        return Client(app, backend=over(transport or sqs.sync))

    monkeypatch.setattr("headgate.jobs.client.client.Client", client)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("submit nightly --max-attempts 0", "max_attempts must lie between 1 and "),
        ("submit nightly --attempt-timeout 0s", "timeout must be positive"),
        ("submit nightly --expires 0s", "expires must be positive"),
        ("submit nightly --keep 40000d", "keep must be at most 36,525 days"),
        ("submit nightly --keep 40000d --wait", "keep must be at most 36,525 days"),
        ("submit nightly --keep-failed 40000d", "keep must be at most 36,525 days"),
        ("submit nightly --at 2030-01-31T08:00", "has no time zone"),
        ("submit nightly --group mine", "group orders the jobs of a FIFO queue"),
        ("submit nightly --tenant é", "tenant must be 1 to 128 ASCII characters"),
        ("worker --concurrency 0", "concurrency must lie between 1 and 1000, got 0"),
        ("worker --reserved 50", "reserved must leave other jobs a slot: 0 to 49 of 50"),
        ("worker --children 0", "children must lie between 1 and 256, got 0"),
        ("worker --health-port 70000", "the health port must lie between 0 and 65535"),
        ("worker --receive-wait 1m", "receive_wait must lie between 1 and 20 s"),
        ("worker --priorities urgent", "there is no priority 'urgent': known are: critical"),
        ("queues list --every 0s", "--every must be at least 1s, got 0s"),
        ("queues drain jobs --every 0s", "--every must be at least 1s, got 0s"),
        ("jobs list --state ded", "there is no state 'ded': did you mean 'dead'?"),
        ("dead-letters count --by moon", "known are: error, hour, queue, reason, tenant, type"),
        ("schedules reschedule x nonsense", "'nonsense'"),
        ("cost --jobs 5 --failure-rate 2", "failure_rate"),
        ("cost --jobs 5 --peak 0", "peak"),
        ("cost --jobs 5 --cdk-json none.json", "none.json could not be read"),
        ("provision --endpoint nonsense", "'nonsense' is no URL: write --endpoint http://"),
        ("verify --stage prod", "their names are verify- and up to 12 letters and digits"),
        ("diff --template none.json", "none.json could not be read"),
    ],
)
@pytest.mark.usefixtures("in_memory")
def test_a_value_that_is_not_allowed_is_refused(
    words: str, said: str, headgate: CommandLine
) -> None:
    ended = headgate(*words.split(), app="cli_shop:app")
    assert (ended.code, ended.out) == (EXIT_USAGE, "")
    assert said in ended.err
    assert not [leak for leak in LEAKS if leak in ended.err]
