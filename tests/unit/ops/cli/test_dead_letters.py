"""``headgate dead-letters``: its output, its options and its exit codes."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headgate import App, Client
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.messages.large_payloads import parcel, payload_key
from headgate.jobs.testing import MemoryBackend, VirtualClock
from headgate.ops.views.dead_letters import EXIT_LEFT, EXIT_NONE
from tests.support.backends import over
from tests.support.command_line import CommandLine, Ended
from tests.support.sweep_bench import SECRET, SweepBench

NASTY = "[bold]x[/bold] :smile: \x1b[2J\u202e"
SHOWN = "[bold]x[/bold] :smile: \\x1b[2J\\u202e"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> SweepBench:
    """An app's dead letters, in place of AWS's."""
    app = App("shop", stage="test", records="outcomes")
    app.define("send-email", dict[str, str])
    app.define("nightly")
    made = SweepBench(app, clock=VirtualClock(datetime.now(UTC) - timedelta(minutes=30)))
    backend = over(made.sqs.sync, table=made.table.sync, store=made.store.sync, clock=made.clock)
    monkeypatch.setattr(
        "headgate.jobs.client.client.Client", lambda app: Client(app, backend=backend)
    )
    monkeypatch.setenv("COLUMNS", "80")
    return made


@pytest.fixture
def letters(bench: SweepBench, headgate: CommandLine) -> Letters:  # noqa: ARG001 - in place of AWS's
    return Letters(headgate)


class Letters:
    """The commands, on one app."""

    def __init__(self, headgate: CommandLine) -> None:
        self._headgate = headgate

    def __call__(self, *words: str) -> Ended:
        return self._headgate("dead-letters", *words, app="cli_shop:app")


def test_a_list_has_two_lines_for_each_letter_that_fit_80_columns(
    bench: SweepBench, letters: Letters
) -> None:
    job_id = bench.die("send-email", error="CardError")
    ended = letters("list")
    assert (ended.code, ended.err) == (0, "")
    first, second, *_ = ended.out.splitlines()
    assert first == f"{job_id}   30m  send-email: attempts-exhausted"
    assert second == f"    CardError: card {SECRET}"
    assert "1 dead letter; `show ID` has all of one." in ended.out
    assert all(len(line) <= 80 for line in ended.out.splitlines())


def test_without_letters_commands_say_so_and_exit_with_3(letters: Letters, tmp_path: Path) -> None:
    for words in (["list"], ["count"], ["purge"], ["purge", "--yes"]):
        ended = letters(*words)
        assert ended.code == EXIT_NONE
        assert ended.err == ""
    assert letters("list").out == letters("count").out == "No dead letters.\n"
    ended = letters("show", "x")
    assert ended.code == EXIT_NONE
    assert "no dead letter that can be seen is of x" in ended.err
    assert letters("export", str(tmp_path / "f")).out == f"0 dead letters in {tmp_path / 'f'}\n"


def test_a_list_as_json_says_what_was_looked_at(bench: SweepBench, letters: Letters) -> None:
    job_id = bench.die("send-email")
    told = json.loads(letters("list", "--json").out)
    assert (told["complete"], told["seen"], told["unseen"]) == (True, 1, {})
    [letter] = told["dead_letters"]
    assert (letter["job_id"], letter["origin"]) == (job_id, "shop-test-jobs-normal")
    assert "content" not in letter


def test_options_that_select_can_be_given_several_times(
    bench: SweepBench, letters: Letters
) -> None:
    for job_type in ("send-email", "nightly", "nightly"):
        bench.die(job_type)
    bench.crash("send-email")
    bench.clock.advance(timedelta(minutes=30))

    def count(*words: str) -> int:
        found: int = json.loads(letters("count", *words, "--json").out)["total"]
        return found

    assert count() == 4
    assert count("--type", "send-email") == 2
    assert count("--type", "send-email", "--type", "nightly") == 4
    assert count("--reason", "quarantined") == 1
    assert count("--error", "carderror", "--queue", "jobs", "--since", "2h") == 3
    assert count("--until", "29m") == 4
    assert count("--until", "31m") == 0
    assert count("--since", "2020-01-01", "--until", "2021-01-01T00:00:00Z") == 0
    assert count("--tenant", "acme") == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "--type", "send-mail"], "no type 'send-mail': did you mean 'send-email'?"),
        (
            ["count", "--reason", "quarantine"],
            "no reason 'quarantine': did you mean 'quarantined'?",
        ),
        (["purge", "--queue", "job"], "no queue 'job': did you mean 'jobs'?"),
        (
            ["replay", "--queue", "shop-prod-jobs-normal", "--dry-run"],
            "no queue 'shop-prod-jobs-normal': did you mean 'shop-test-jobs-normal'?",
        ),
    ],
)
def test_where_nothing_is_found_a_name_that_is_none_is_told(
    bench: SweepBench, letters: Letters, words: list[str], said: str
) -> None:
    bench.die("send-email")
    assert letters(*words).err == f"headgate: there is {said}\n"


def test_a_name_that_exists_is_not_told_though_nothing_is_found(letters: Letters) -> None:
    for name in (
        "jobs",
        "shop-test-jobs-normal",
        "shop-test-jobs-normal-dlq",
        "shop-test-quarantine",
    ):
        ended = letters("list", "--queue", name, "--type", "nightly", "--reason", "redriven")
        assert (ended.code, ended.err) == (EXIT_NONE, "")


def test_another_account_s_queue_is_named_by_its_arn_where_nothing_is_found(
    headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = "arn:aws:sqs:eu-central-1:444455556666:orders"
    queue = {"queue": theirs, "dead_letters": f"{theirs}-dead"}
    monkeypatch.setenv("HEADGATE_EXISTING", json.dumps({"queues": {"jobs": {"normal": queue}}}))
    app = App("shop", stage="test")
    app.define("send-email", dict[str, str])
    backend = MemoryBackend(app)
    monkeypatch.setattr(
        "headgate.jobs.client.client.Client", lambda app: Client(app, backend=backend)
    )

    def said(name: str) -> str:
        return headgate("dead-letters", "list", "--queue", name, app="cli_shop:app").err

    assert said(theirs) == said(f"{theirs}-dead") == ""
    assert f"there is no queue 'orders-dead': known are: {theirs}, " in said("orders-dead")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "--since", "soon"], "'soon' is neither an age nor a time: write 2h"),
        (["list", "--since", "1h", "--until", "2h"], "nothing is both since"),
        (["count", "--by", "typ"], "did you mean 'type'?"),
        (["list", "--limit", "0"], "--limit"),
        (["import", "gone.jsonl"], "gone.jsonl can't be read"),
    ],
)
def test_a_bad_option_is_refused_with_2(letters: Letters, words: list[str], said: str) -> None:
    ended = letters(*words)
    assert ended.code == 2
    assert said in ended.err


def test_a_count_is_a_table_of_groups(bench: SweepBench, letters: Letters) -> None:
    for _ in range(12):
        bench.die("send-email")
    ended = letters("count", "--by", "type", "--by", "error")
    assert ended.code == 0
    for text in ("12", "send-email", "CardError", "12 dead letters in all"):
        assert text in ended.out
    assert all(len(line) <= 80 for line in ended.out.splitlines())


def test_a_letter_is_shown_with_its_payload_only_when_asked(
    bench: SweepBench, letters: Letters
) -> None:
    job_id = bench.die("send-email", payload={"to": "zora"})
    ended = letters("show", job_id)
    assert ended.code == 0
    for text in (f"{job_id}  send-email", "attempts-exhausted", "shop-test-jobs-normal-dlq"):
        assert text in ended.out
    assert "zora" not in ended.out
    assert '"to": "zora"' in letters("show", job_id, "--payload").out
    assert json.loads(letters("show", job_id, "--payload", "--json").out)["payload"] == {
        "to": "zora"
    }


def test_what_a_letter_says_is_neither_markup_nor_a_command_to_the_terminal(
    bench: SweepBench, letters: Letters
) -> None:
    bench.die("send-email", error=NASTY, type=NASTY)
    [message] = bench.sqs.messages("shop-test-jobs-normal-dlq")
    for words in (["list"], ["count", "--by", "error"], ["show", message.message_id]):
        ended = letters(*words)
        assert "\x1b" not in ended.out
        assert "\u202e" not in ended.out
        assert "[bold]x[/bold]" in ended.out


def test_exported_letters_can_be_purged_and_imported(
    bench: SweepBench, letters: Letters, tmp_path: Path
) -> None:
    for _ in range(3):
        bench.die("send-email")
    path = str(tmp_path / "letters.jsonl")
    ended = letters("export", path)
    assert (ended.code, ended.out) == (0, f"3 dead letters in {path}\n")
    ended = letters("purge", "--yes")
    assert (ended.code, ended.out) == (0, "3 dead letters deleted, 3 copied to the bucket\n")
    assert bench.everything() == []
    ended = letters("import", path)
    assert (ended.code, ended.out) == (0, "3 dead letters sent to the queues that they were in\n")
    assert bench.visible() == 3
    assert letters("export", path).code == 2, "nothing is overwritten"


@pytest.mark.parametrize(("answer", "left"), [("y", 0), ("n", 2), ("", 2)])
def test_a_purge_says_the_count_and_asks(
    bench: SweepBench,
    letters: Letters,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    left: int,
) -> None:
    for _ in range(2):
        bench.die("send-email")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n" if answer else ""))
    ended = letters("purge")
    assert "2 dead letters would be deleted, after a copy of each was saved" in ended.out
    assert ended.code == (0 if left == 0 else 1)
    assert len(bench.everything()) == bench.visible() == left


def test_a_purge_without_copies_says_so(
    bench: SweepBench, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.die("send-email")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    ended = letters("purge", "--no-copy")
    assert "1 dead letter would be deleted, WITHOUT a copy." in ended.out
    assert "1 dead letter deleted, none copied" in ended.out
    assert bench.store.objects == {}


def test_a_purge_that_leaves_letters_exits_with_1_and_says_why(
    bench: SweepBench, letters: Letters
) -> None:
    bench.die("send-email")
    bench.store.missing = True
    ended = letters("purge", "--yes")
    assert ended.code == EXIT_LEFT
    assert "could not be copied" in ended.err
    assert bench.visible() == 1


def test_what_was_not_seen_is_told(bench: SweepBench, letters: Letters, tmp_path: Path) -> None:
    for _ in range(3):
        bench.die("send-email")
    bench.sqs.sync.receive("shop-test-jobs-normal-dlq", limit=1, wait_s=0, visibility_s=600)
    path = str(tmp_path / "f")
    for words, code in ((["list"], 0), (["count"], 0), (["export", path], EXIT_LEFT)):
        ended = letters(*words)
        assert ended.code == code
        assert "about 1 more in shop-test-jobs-normal-dlq were not seen" in ended.err
    assert json.loads(letters("count", "--json").out)["complete"] is False


def test_a_purge_that_could_not_see_all_letters_is_not_a_success(
    bench: SweepBench, letters: Letters
) -> None:
    for _ in range(3):
        bench.die("send-email")
    bench.sqs.sync.receive("shop-test-jobs-normal-dlq", limit=1, wait_s=0, visibility_s=600)
    ended = letters("purge", "--yes")
    assert (ended.code, ended.out) == (
        EXIT_LEFT,
        "2 dead letters deleted, 2 copied to the bucket\n",
    )
    assert "about 1 more in shop-test-jobs-normal-dlq were not seen" in ended.err
    for words, said in (
        (["--yes"], "0 dead letters deleted\n"),
        ([], "No dead letters that can be seen.\n"),
    ):
        ended = letters("purge", *words)
        assert (ended.code, ended.out) == (EXIT_LEFT, said)
        assert "about 1 more" in ended.err


# --- copies --------------------------------------------------------------------------------------


def test_copies_are_listed_shown_and_sent_back(bench: SweepBench, letters: Letters) -> None:
    job_id = bench.die("send-email", error="CardError")
    assert letters("purge", "--yes").code == 0
    listed = letters("copies", "--type", "send-email")
    assert (listed.code, listed.err) == (0, "")
    first, second = listed.out.splitlines()
    assert first == f"{job_id}  send-email: attempts-exhausted"
    assert "CardError" in second
    assert "kept until" in second
    [told] = json.loads(letters("copies", "--json").out)["copies"]
    assert (told["job_id"], told["queue"]) == (job_id, "shop-test-jobs-normal-dlq")
    shown = letters("copies", job_id, "--payload")
    assert shown.code == 0
    assert f"  object     {told['key']}" in shown.out
    assert SECRET in shown.out
    restored = letters("restore", "--yes")
    assert (restored.code, bench.visible()) == (0, 1)
    assert restored.out.startswith("1 dead letter sent to the queues that they were in")


def test_without_copies_the_commands_say_so(letters: Letters) -> None:
    for words in (["copies"], ["restore", "--yes"]):
        ended = letters(*words)
        assert (ended.code, ended.out) == (EXIT_NONE, "No copies of dead letters.\n")
    ended = letters("copies", "x")
    assert ended.code == EXIT_NONE
    assert "no copy of a dead letter is of x" in ended.err


def test_letters_of_jobs_that_have_gone_on_are_named_and_sent_if_asked(
    bench: SweepBench, letters: Letters
) -> None:
    job_id = bench.die("send-email", payload={"to": "ada"})
    letters("purge", "--yes")
    letters("restore", "--yes")
    bench.clock.advance(1)
    assert letters("replay", "--yes").code == 0
    ended = letters("restore", "--yes")
    assert (ended.code, bench.visible()) == (0, 0)
    assert ended.out.startswith("1 dead letter left: by their records these jobs have completed")
    assert f"  {job_id}\n" in ended.out
    ended = letters("restore", "--yes", "--include-superseded")
    assert (ended.code, bench.visible()) == (0, 1)


def test_nothing_is_restored_unless_somebody_confirms_it(
    bench: SweepBench, letters: Letters
) -> None:
    bench.die("send-email")
    letters("purge", "--yes")
    ended = letters("restore")
    assert ended.code == 2
    assert "add --yes" in ended.err
    assert bench.visible() == 0


def test_a_letter_that_can_not_be_restored_is_told(bench: SweepBench, letters: Letters) -> None:
    bench.die("send-email")
    job_id = new_job_id(bench.clock.now())
    kept = parcel(payload_key(job_id), {"to": "ada"})
    bench.store.objects[kept.ref.key] = kept.packed()
    bench.die("send-email", id=job_id, payload=None, payload_ref=kept.ref)
    letters("purge", "--yes")
    [beside] = [key for key in bench.store.objects if key.endswith(".payload.gz")]
    bench.store.objects[beside] = b"x" * 100_000
    ended = letters("restore", "--yes")
    assert (ended.code, bench.visible()) == (EXIT_LEFT, 1)
    assert ended.out.startswith("1 dead letter sent")
    assert "could not be restored" in ended.err
    assert ended.err.endswith("1 dead letter left\n")
