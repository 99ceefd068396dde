"""Every command that a page tells a reader to type exists, with its options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.commands import unknown_options
from tests.docs.generate import PAGES, ROOT

TYPED = {
    page: lines
    for page in (*PAGES, *ROOT.glob("examples/*/README.md"))
    if (lines := re.findall(r"^\s*\$ headgate (.*)$", page.read_text(), re.MULTILINE))
}


@pytest.mark.parametrize("page", TYPED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    for line in TYPED[page]:
        assert not unknown_options(line), line


def test_an_unknown_command_and_an_unknown_option_are_noticed() -> None:
    assert unknown_options("-A shop.app:app dead-letters list --typo 1") == {"--typo"}
    with pytest.raises(KeyError, match="lettres"):
        unknown_options("lettres list")
