"""The commands of docs/regions.md, for the tests that carry them out."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "regions.md"


def commands(heading: str) -> list[str]:
    """Return the commands of a section's console blocks."""
    text = PAGE.read_text(encoding="utf-8")
    [section] = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\$ (.*)$", section, re.MULTILINE)
