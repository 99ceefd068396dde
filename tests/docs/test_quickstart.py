"""The quickstart has the steps that `make quickstart` types."""

from __future__ import annotations

from tests.docs.quickstart import PAGE, commands_of


def test_the_page_installs_tests_runs_and_submits_one_block_each() -> None:
    install, test, run, submit = commands_of(PAGE.read_text())
    assert install[-1].startswith("cd ")
    assert [[line.split()[0] for line in block] for block in (test, run, submit)] == [
        ["python"],
        ["headgate"],
        ["headgate"],
    ]
