"""The command as a whole: its help, its completion, and its behaviour in pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from headgate.ops.cli.main import EXIT_FAULT
from headgate.workers.process.exit_codes import EXIT_INTERRUPTED
from tests.support.command_line import CommandLine

ROOT = Path(__file__).parents[4]
SCRIPT = [sys.executable, "-c", "from headgate.ops import main; main()"]
VERBS = (
    *("new", "dev", "worker", "shell", "submit", "health", "audit", "erase"),
    *("check", "diff", "verify", "plan", "cost", "console", "provision", "demo"),
)
NOUNS = {
    "dashboard": ("grafana",),
    "dead-letters": (
        *("list", "count", "show", "export", "import", "purge"),
        *("replay", "replays", "resume", "abort"),
        *("copies", "restore"),
    ),
    "export": ("kubernetes", "compose", "systemd", "terraform", "cloudformation", "functions"),
    "jobs": ("list", "count", "show", "cancel", "rerun"),
    "queues": ("list", "pause", "drain", "resume"),
    "schedules": ("list", "next", "pause", "resume", "run", "export", "import"),
    "workers": ("list",),
}
EVERY_COMMAND = [(), *((each,) for each in (*VERBS, *NOUNS))] + [
    (noun, verb) for noun, verbs in NOUNS.items() for verb in verbs
]


def spawn(
    *words: str, stdout: int = subprocess.PIPE, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start the command in a process of its own."""
    return subprocess.Popen(
        [*SCRIPT, *words],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
    )


def output(*words: str, env: Mapping[str, str] | None = None) -> str:
    """Run the command to its end, which has to be a good one, and return its output."""
    process = spawn(*words, env=env)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    return out


# --- help ----------------------------------------------------------------------------------------


def test_help_in_a_process_of_its_own_lists_every_command() -> None:
    said = output("--help")
    for command in (*VERBS, *NOUNS):
        assert f"\n  {command} " in said


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=" ".join)
def test_every_help_is_plain_text_that_ends_with_examples(
    words: Sequence[str], headgate: CommandLine
) -> None:
    said = headgate(*words, "--help").out
    assert said.startswith(" ".join(("Usage: headgate", *words)))
    _, _, shown = said.partition("\n  Examples:\n")
    assert shown, said
    for line in shown.splitlines():
        assert line.startswith("    ")
        assert " ".join(("headgate", *words)) in line.replace("-A shop.app:app ", "")
    assert "..." not in said.partition("Commands:")[2]  # no sentence is cut short
    assert max(map(len, said.splitlines())) <= 80
    assert "\x1b" not in said


def test_every_reading_command_has_json(headgate: CommandLine) -> None:
    reading = [
        *(("dead-letters", verb) for verb in ("list", "count", "show", "copies", "replays")),
        *(("jobs", verb) for verb in ("list", "count", "show")),
        ("queues", "list"),
        ("schedules", "list"),
        ("schedules", "next"),
    ]
    for words in (*reading, ("check",), ("plan",), ("cost",)):
        assert "--json " in headgate(*words, "--help").out


def test_a_command_that_does_not_exist_is_answered_with_the_nearest(headgate: CommandLine) -> None:
    ended = headgate("shedules", "list")
    assert (ended.code, ended.out) == (2, "")
    assert "No such command 'shedules'" in ended.err


def test_help_loads_neither_an_sdk_nor_what_draws_tables() -> None:
    code = "import sys, headgate.ops.cli.main; print(*sys.modules)"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True, env=environ).split()
    heavy = {"aiobotocore", "asyncio", "boto3", "rich", "sqlite3"}
    ours = {"headgate.jobs.client", "headgate.jobs.definitions", "headgate.workers.worker"}
    assert not (heavy | ours) & set(loaded)


def test_the_end_of_a_command_does_not_wait_for_a_last_garbage_collection() -> None:
    """It would take most of the time in which an idle worker ends."""
    code = (
        "import atexit, gc; atexit.register(lambda: print('frozen:', gc.get_freeze_count() > 0)); "
        "from headgate.ops import main; main()"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = subprocess.check_output([sys.executable, "-c", code, "-h"], text=True, env=environ)
    assert said.endswith("frozen: True\n")


# --- completion ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("headgate ", {*VERBS, *NOUNS}),
        ("headgate sch", {"schedules"}),
        ("headgate -A shop.app:app jobs ", {"list", "count", "show", "cancel", "rerun"}),
        ("headgate schedules p", {"pause"}),
        ("headgate submit nightly --pri", {"--priority"}),
        ("headgate submit nightly --priority ", {"critical", "high", "normal", "low"}),
    ],
)
def test_a_shell_completes_nouns_verbs_and_options(typed: str, completed: set[str]) -> None:
    words = typed.split(" ")
    environ = {
        "_HEADGATE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }
    assert set(output(env=environ).split()) == completed


def test_the_script_for_the_shell_s_start_up_is_printed() -> None:
    assert "_HEADGATE_COMPLETE=complete_bash" in output(env={"_HEADGATE_COMPLETE": "source_bash"})


# --- pipes and Ctrl-C ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [["check"], ["plan", "send-email"], ["plan", "send-email", "--json"], ["--help"]],
    ids=" ".join,
)
def test_a_reader_that_has_gone_ends_a_command_in_silence(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = spawn(*words, stdout=writer, env={"HEADGATE_APP": "cli_shop:app"})
    os.close(writer)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (EXIT_FAULT, "")


WAITING = """
import os
from headgate import App

os.write(1, b"imported\\n")
while True:
    pass
"""


def test_ctrl_c_ends_a_command_in_silence(here: Path) -> None:
    (here / "waiting.py").write_text(WAITING)
    process = spawn("-A", "waiting:app", "check")
    assert process.stdout is not None
    assert process.stdout.readline() == "imported\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (EXIT_INTERRUPTED, "", "")


def test_a_character_that_the_output_can_not_hold_is_escaped() -> None:
    said = output("-A", "cli_shop:app", "plan", "send-email", env={"PYTHONIOENCODING": "ascii"})
    assert said.isascii()
    assert "\\u2588" in said  # a bar's block
    assert "All attempts come within" in said


def test_output_that_is_no_terminal_is_neither_coloured_nor_wrapped() -> None:
    said = output("-A", "cli_shop:app", "plan", "send-email")
    assert "\x1b" not in said
    assert len({len(line) for line in said.splitlines() if line.startswith(("│", "┃"))}) == 1
