"""The journal that handlers write and tests read meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.support.journal import Entry, Journal, whole_lines


def test_a_line_that_is_visible_in_part_is_left_to_the_next_reading(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text("start job-1 7\ndone jo")
    journal = Journal(path)
    started = Entry("start", "job-1", 7)
    assert journal.entries() == [started]
    assert whole_lines(path) == ["start job-1 7"]
    entries, end = journal.entries_from(0)
    assert entries == [started]
    with path.open("a") as file:
        file.write("b-1 7\n")
    assert journal.entries() == [started, Entry("done", "job-1", 7)]
    assert journal.entries_from(end) == ([Entry("done", "job-1", 7)], path.stat().st_size)


def test_a_journal_that_nobody_has_written_yet_is_empty(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert journal.entries() == []
    assert journal.entries_from(0) == ([], 0)
