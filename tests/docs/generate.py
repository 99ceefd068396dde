"""``make docs``: write what the pages say in figures and tables anew from the code.

A page marks such a place by its name, in a line or around whole lines::

    It takes <!-- generated: shop-usd -->67<!-- end --> USD.

`tests.docs.blocks` has what belongs into each. A test compares the pages with it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

Block = Callable[[], str]

_OPENING = re.compile(r"<!-- generated:")
_MARKED = re.compile(r"<!-- generated: ([\w-]+) -->(.*?)<!-- end -->", re.DOTALL)


def names(text: str) -> list[str]:
    """Return the names of a text's marked places."""
    return [found[1] for found in _MARKED.finditer(text)]


def rendered(text: str, blocks: Mapping[str, Block]) -> str:
    """Return a text with the present content of each marked place.

    Raises:
        ValueError: a place has no end, or a name that no block has.
    """
    if len(_OPENING.findall(text)) != len(_MARKED.findall(text)):
        raise ValueError("a marked place has no <!-- end -->, or begins before another has ended")
    return _MARKED.sub(lambda found: _filled(found[0], found[1], blocks), text)


def _filled(marked: str, name: str, blocks: Mapping[str, Block]) -> str:
    if name not in blocks:
        raise ValueError(f"nothing generates {name!r}: known are {', '.join(sorted(blocks))}")
    content = blocks[name]().strip("\n")
    if marked.count("\n"):
        content = f"\n{content}\n"
    return f"<!-- generated: {name} -->{content}<!-- end -->"


def main() -> None:
    """Write all pages."""
    from tests.docs.blocks import BLOCKS

    for page in PAGES:
        before = page.read_text()
        after = rendered(before, BLOCKS)
        if after != before:
            page.write_text(after)
            sys.stdout.write(f"{page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
