"""Printing: nothing that is printed is markup, and nothing is a command to a terminal."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from headgate import Priority
from headgate.ops.cli import main as module
from headgate.ops.views.output import TextTable, show, show_error, show_json

MARKUP = "[bold]a[/bold] [link=x]b[/] :smile:"


def test_a_text_is_printed_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    show(f"{MARKUP}\n\tgröße \x1b[31m\u202e\x85")
    assert capsys.readouterr().out == f"{MARKUP}\n\tgröße \\x1b[31m\\u202e\\x85\n"


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_error("first\nheadgate: forged\x1b[2J")
    assert capsys.readouterr().err == "headgate: first\\nheadgate: forged\\x1b[2J\n"


def test_an_error_that_nobody_foresaw_can_do_nothing_to_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(**_options: object) -> None:
        raise RuntimeError("\x1b]52;c;b3duZWQ=\x07 and \x9b2J\u202e")

    monkeypatch.setattr(module, "cli", raises)
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last):\n")
    assert said.endswith("RuntimeError: \\x1b]52;c;b3duZWQ=\\x07 and \\x9b2J\\u202e\n")


def test_a_table_shows_its_cells_headings_and_title_as_they_stand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = TextTable(MARKUP, "n", right=["n"], title=f"of {MARKUP}")
    table.row(f"{MARKUP}\x1b[2J", "1")
    table.section()
    table.row("two\nlines", "1,000")
    table.show()
    out = capsys.readouterr().out
    assert out.count(MARKUP) == 3
    assert "\\x1b[2J" in out
    assert "│ two\\nlines" in out
    assert "│     1 │" in out


def test_a_table_is_wrapped_for_terminals_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = TextTable("id")
    table.row("x" * 300)
    table.show()
    assert "x" * 300 in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "40")
    table.show()
    assert max(map(len, capsys.readouterr().out.splitlines())) == 40


def test_a_table_breaks_its_headings_before_its_cells(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TextTable("queue", "in flight", "in/out per min")
    table.row("jobs critical", "2", "120/90")
    monkeypatch.setenv("COLUMNS", "80")
    table.show()
    assert "│ in flight │ in/out per min │" in capsys.readouterr().out.replace("┃", "│")
    monkeypatch.setenv("COLUMNS", "36")
    table.show()
    shown = capsys.readouterr().out
    assert "│ jobs critical │ 2      │ 120/90  │" in shown
    assert "┃ queue         ┃ flight ┃ per min ┃" in shown


def test_a_narrow_table_has_its_names_whole_and_cuts_no_cell_short(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    table = TextTable("schedule", "type", "when")
    table.row("count-stock.chairs", "count-stock", "a-time-of-more-than-twenty-letters")
    table.row("n" * 29, "count-stock", "now")
    table.show()
    shown = capsys.readouterr().out
    assert "│ count-stock.chairs            │" in shown
    assert "n" * 29 in shown
    assert "…" not in shown
    monkeypatch.setenv("COLUMNS", "30")
    table.show()
    shown = capsys.readouterr().out
    assert shown.count("n") >= 29
    assert max(map(len, shown.splitlines())) == 30


def test_json_is_one_document_in_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    value = {
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "priority": Priority.HIGH,
        "text": "größe \x1b\x9b\u202e\ud800",
    }
    show_json(value)
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == {**value, "at": "2026-01-02T00:00:00Z", "priority": "high"}
    show_json([1, {"a": None}], indent=None)
    assert capsys.readouterr().out == '[1, {"a": null}]\n'
