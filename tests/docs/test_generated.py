"""Figures and tables of the pages are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import BLOCKS
from tests.docs.generate import PAGES, names, rendered

TWO = {"usd": lambda: "67", "table": lambda: "| a |\n| - |"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_what_the_code_says_now(page: Path) -> None:
    text = page.read_text()
    assert text == rendered(text, BLOCKS), "run `make docs`"


def test_everything_that_is_generated_stands_on_a_page() -> None:
    assert {name for page in PAGES for name in names(page.read_text())} == BLOCKS.keys()


def test_a_place_in_a_line_and_one_around_lines_are_filled_and_the_rest_stays() -> None:
    text = (
        "Takes <!-- generated: usd -->?<!-- end --> USD.\n<!-- generated: table -->\n<!-- end -->\n"
    )
    filled = rendered(text, TWO)
    assert filled == (
        "Takes <!-- generated: usd -->67<!-- end --> USD.\n"
        "<!-- generated: table -->\n| a |\n| - |\n<!-- end -->\n"
    )
    assert rendered(filled, TWO) == filled


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- generated: eur -->1<!-- end -->", "nothing generates 'eur': known are table, usd"),
        ("<!-- generated: usd -->1", "no <!-- end -->"),
        ("<!-- generated: usd --> <!-- generated: table --><!-- end -->", "another has ended"),
    ],
)
def test_a_place_without_end_or_of_an_unknown_name_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rendered(text, TWO)
