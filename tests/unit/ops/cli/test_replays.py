"""``headgate dead-letters replay``, ``replays``, ``resume`` and ``abort``."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate import App, Client, load_app
from headgate.errors import AccessDenied
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.dead_letters.replaying.report import ReplayReport
from headgate.testing import Harness, MemoryBackend
from tests.support.command_line import CommandLine, Ended

APP = "cli_shop:app"
ROOT = Path(__file__).parents[4]
STEP = re.compile(r"^\$ headgate -A \S+ (.*)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)
"""A command of the page, and what the page shows of its output."""

ANY_JOB = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Shop:
    """The commands, on an in-memory app with dead letters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, headgate: CommandLine) -> None:
        self._headgate = headgate
        monkeypatch.syspath_prepend(".")
        self.app = load_app(APP)
        self.backend = MemoryBackend(self.app)
        monkeypatch.setattr("headgate.jobs.client.client.Client", self._client)
        self.spec = self.app.topology.queue(
            self.app.find_type("send-email").queue, self.app.find_type("send-email").priority
        )

    def _client(self, app: App) -> Client:
        return Client(app, backend=self.backend)

    def dead(self, count: int) -> list[str]:
        """Leave so many dead letters; return the ids of their jobs."""
        email = sys.modules["cli_shop"].Email
        kind = self.app.find_type("send-email")
        jobs = self._client(self.app).submit_many(kind, [email(to="ada")] * count)
        sqs = self.backend.sqs.sync
        while found := sqs.receive(self.spec.name, limit=10, wait_s=0):
            sqs.delete(self.spec.name, [each.receipt for each in found])
            letters = [
                OutgoingMessage(body=each.body, attributes={"Reason": "do-not-retry"})
                for each in found
            ]
            assert sqs.send(self.spec.dlq_name, letters) == []
        self.backend.clock.advance(60)
        return [job.id for job in jobs]

    @property
    def sent(self) -> int:
        return len(self.backend.sqs.messages(self.spec.name))

    def run(self, *words: str) -> Ended:
        """Run a command."""
        return self._headgate("dead-letters", *words, app=APP)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, headgate: CommandLine) -> Shop:
    return Shop(monkeypatch, headgate)


def test_a_dry_run_says_what_would_be_sent(shop: Shop) -> None:
    shop.dead(3)
    ended = shop.run("replay", "--dry-run")
    assert (ended.code, shop.sent) == (0, 0)
    assert ended.out.splitlines() == ["3 jobs to replay", f"        3  {shop.spec.name}"]
    document = json.loads(shop.run("replay", "--dry-run", "--json").out)
    assert (document["sent"], document["by_queue"]) == (3, {shop.spec.name: 3})


def test_letters_are_sent_once_that_is_confirmed(shop: Shop) -> None:
    shop.dead(3)
    ended = shop.run("replay")
    assert (ended.code, shop.sent) == (2, 0)
    assert "add --yes" in ended.err
    ended = shop.run("replay", "--yes")
    assert (ended.code, shop.sent) == (0, 3)
    assert "done, 3 sent" in ended.out
    assert shop.run("replay", "--dry-run").out == "0 jobs to replay\n"


def test_a_name_that_is_none_is_told_where_it_lets_a_replay_or_a_purge_find_nothing(
    shop: Shop,
) -> None:
    shop.dead(1)
    said = "headgate: there is no type 'send-mail': did you mean 'send-email'?\n"
    replayed = shop.run("replay", "--type", "send-mail", "--yes")
    assert (replayed.code, replayed.err.endswith(said), shop.sent) == (0, True, 0)
    purged = shop.run("purge", "--type", "send-mail", "--yes")
    assert (purged.code, purged.err) == (3, said)


def test_options_select_pace_and_change(shop: Shop) -> None:
    first, *_ = shop.dead(5)
    ended = shop.run("replay", "--id", first, "--set", 'to="eve"', "--yes", "--json")
    document = json.loads(ended.out)
    assert (document["sent"], document["options"]["set"]) == (1, {"to": "eve"})
    [message] = shop.backend.sqs.messages(shop.spec.name)
    assert '"to":"eve"' in message.body
    more = ("--type", "send-email", "--reason", "do-not-retry", "--since", "2h", "--limit", "2")
    assert "done, 2 sent" in shop.run("replay", *more, "--rate", "1", "--yes").out
    assert "done, 2 of 2 sent" in shop.run("replay", "--spread", "30s", "--yes").out


@pytest.mark.parametrize("terminal", [True, False])
def test_a_replay_that_an_error_stops_says_how_to_go_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, *, terminal: bool
) -> None:
    monkeypatch.setattr("headgate.ops.views.replays.sys.stderr.isatty", lambda: terminal)
    shop.dead(30)
    expired = AccessDenied("ExpiredToken: the security token is expired")
    shop.backend.sqs.faults.raise_on("delete", expired, queue=shop.spec.dlq_name)
    ended = shop.run("replay", "--yes")
    assert (ended.code, shop.sent) == (1, 30)
    [replay] = json.loads(shop.run("replays", "--json").out)
    assert replay["state"] == "stopped"
    assert f"To go on: headgate dead-letters resume {replay['id']}" in ended.err
    assert "ExpiredToken" in ended.err
    assert shop.run("resume", replay["id"]).code == 0
    assert shop.sent == 30


def test_letters_that_are_left_show_in_text_and_code(shop: Shop) -> None:
    [job_id] = shop.dead(1)
    ended = shop.run("replay", "--set", "to=3", "--yes")
    assert (ended.code, shop.sent) == (1, 0)
    assert "1 left where they are" in ended.out
    assert job_id in ended.out
    assert "more" not in ended.out


def test_where_all_letters_would_be_left_the_code_is_that_of_a_confirmed_replay(
    shop: Shop,
) -> None:
    shop.dead(1)
    unconfirmed = shop.run("replay", "--set", "to=3")
    assert unconfirmed.code == shop.run("replay", "--set", "to=3", "--yes").code == 1
    assert "1 left where they are" in unconfirmed.out
    assert shop.run("replay", "--set", "to=3", "--dry-run").code == 0


def test_letters_that_are_left_and_not_shown_are_counted(shop: Shop) -> None:
    shop.dead(7)
    planned = shop.run("replay", "--set", "to=3", "--dry-run")
    assert "  and 2 more; --json lists up to 100\n" in planned.out
    ended = shop.run("replay", "--set", "to=3", "--yes")
    [name] = re.findall(
        r"and 2 more; headgate dead-letters replays (\S+) --json lists up to", ended.out
    )
    assert len(json.loads(shop.run("replays", name, "--json").out)["left"]) == 7


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--set", "to"), "is not FIELD=JSON"),
        (("--set", "=1"), "names no field"),
        (("--rate", "1", "--spread", "1m"), "not both"),
        (("--since", "soon"), "is neither an age nor a time"),
        (("--canary", "2", "--stop-above", "1"), "needs stop_above"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    shop: Shop, words: tuple[str, ...], why: str
) -> None:
    ended = shop.run("replay", *words, "--yes")
    assert ended.code == 2
    assert why in " ".join(ended.err.split())


def test_replays_are_listed_shown_resumed_and_aborted(shop: Shop) -> None:
    shop.dead(20)
    ended = shop.run("replay", "--canary", "2", "--yes")
    assert ended.code == 3
    [replay] = json.loads(shop.run("replays", "--json").out)
    assert (replay["state"], replay["sent"]) == ("stopped", 2)
    assert f"headgate dead-letters resume {replay['id']}" in ended.out
    assert "stopped" in shop.run("replays").out
    assert "2 sent" in shop.run("replays", replay["id"]).out
    assert shop.run("resume", replay["id"]).code == 0
    assert shop.sent == 20
    ended = shop.run("abort", replay["id"])
    assert (ended.code, "is done: start another" in ended.err) == (2, True)
    assert shop.run("resume", "x").code == 2


def test_an_aborted_replay_is_not_resumed(shop: Shop) -> None:
    shop.dead(3)
    shop.run("replay", "--canary", "2", "--yes")
    [replay] = json.loads(shop.run("replays", "--json").out)
    assert shop.run("abort", replay["id"]).out == f"{replay['id']} is aborted\n"
    assert shop.run("resume", replay["id"]).code == 2


def test_the_first_ctrl_c_stops_a_replay_once_its_requests_are_answered(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.dead(100)
    passing = shop.backend._pass

    def press(seconds: float) -> None:
        passing(seconds)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(shop.backend, "_pass", press)
    ended = shop.run("replay", "--rate", "1", "--yes")
    assert ended.code == 130
    assert "stopping" in ended.err
    [replay] = json.loads(shop.run("replays", "--json").out)
    assert (replay["state"], replay["reason"]) == ("stopped", "interrupted")
    assert replay["sent"] == shop.sent < 100


def test_the_progress_is_one_line_of_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from headgate.ops.views.replays import watched

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with watched(lambda: None) as on_step:
        told: Callable[[ReplayReport], None] = on_step
        told(_report(1))
        told(_report(2))
    said = capsys.readouterr().err
    assert "\n" not in said
    assert [part.strip() for part in said.split("\r")][1:3] == [
        "r-1: running, 1 sent",
        "r-1: running, 2 sent",
    ]


def test_without_a_terminal_a_replay_is_named_once_when_it_begins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from headgate.ops.views.replays import watched

    with watched(lambda: None) as on_step:
        told: Callable[[ReplayReport], None] = on_step
        told(_report(1))
        told(_report(2))
    assert capsys.readouterr().err == (
        "headgate: r-1 has begun; to end it: headgate dead-letters abort r-1\n"
    )


def _report(sent: int) -> Any:
    from datetime import UTC, datetime

    from headgate import DeadLetterFilter
    from headgate.jobs.dead_letters.replaying.options import ReplayOptions
    from headgate.jobs.dead_letters.replaying.report import ReplayState

    return ReplayReport(
        id="r-1",
        state=ReplayState.RUNNING,
        started_at=datetime.now(UTC),
        updated_at=datetime.now(UTC),
        filter=DeadLetterFilter(),
        options=ReplayOptions(),
        sent=sent,
    )


MAIL = """
from pydantic import BaseModel
from headgate import App, DoNotRetry

class Email(BaseModel):
    to: str

app = App("shop", stage="test")
app_works = False

@app.job("send-email")
def send_email(email: Email) -> None:
    if not app_works:
        raise DoNotRetry("no such address")
"""


def test_the_way_from_an_alert_to_jobs_that_are_done_is_as_the_page_shows_it(
    monkeypatch: pytest.MonkeyPatch, headgate: CommandLine, here: Path
) -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    section = page.partition("## From an alert to jobs that run again")[2].partition("\n## ")[0]
    (here / "on_call.py").write_text(MAIL)
    monkeypatch.syspath_prepend(".")
    app = load_app("on_call:app")
    module: Any = sys.modules["on_call"]
    jobs = Harness(app)
    monkeypatch.setattr("headgate.jobs.client.client.Client", lambda _app: jobs.client)
    sent = jobs.client.submit_many(module.send_email, [module.Email(to="ada")] * 25)
    job = sent[0].id
    jobs.drain()
    jobs.clock.advance(60)
    module.app_works = True

    steps = STEP.findall(section)
    assert len(steps) == 6
    for words, shown in steps:
        ended = headgate(*shlex.split(ANY_JOB.sub(job, words)), app="on_call:app")
        assert ended.code == 0, ended.err
        assert _lines(shown) <= _lines(ended.out), ended.out
        jobs.drain()
    assert len(jobs.completed(module.send_email)) == 20
    sys.modules.pop("on_call")


def _lines(text: str) -> set[str]:
    """Return the lines of an output, without ids, ages and the width of a table's cells."""
    text = re.sub(r"\d{8}-\d{6}-\w{4}", "REPLAY", ANY_JOB.sub("JOB", text))
    text = re.sub(r"\b\d+[smhd]\b", "AGE", text)
    return {" ".join(line.split()) for line in text.splitlines()}


@pytest.mark.parametrize("columns", ["80", "110"])
def test_an_id_is_never_cut_since_one_types_it_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shop.dead(1)
    shop.run("replay", "--limit", "1", "--yes")
    [replay] = json.loads(shop.run("replays", "--json").out)
    assert replay["id"] in shop.run("replays").out
