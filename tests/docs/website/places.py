"""The site's pages: which files they come from, and where they stand."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


def pages() -> dict[Path, str]:
    """Return the path on the site of each page's file."""
    elsewhere = {
        ROOT / "README.md": "index.md",
        ROOT / "CONTRIBUTING.md": "contributing.md",
        ROOT / "CHANGELOG.md": "changelog.md",
        ROOT / "SECURITY.md": "security.md",
        ROOT / "benchmarks" / "README.md": "benchmarks.md",
    }
    examples = {
        path: f"examples/{path.parent.name}.md" for path in ROOT.glob("examples/*/README.md")
    }
    own = {path: path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md"))}
    return elsewhere | examples | own


def place(path: Path, of: dict[Path, str]) -> str:
    """Return the path on the site of a page, or of another file of the repository."""
    if path in of:
        return of[path]
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"files/{path.relative_to(ROOT).as_posix()}"
