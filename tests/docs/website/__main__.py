"""``make site``: build the pages into a site, and refuse any warning of its generator."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.environments import python_with
from tests.docs.website.places import ROOT
from tests.docs.website.staging import stage

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
FOLDER = ROOT / "build" / "docs"
_DIAGRAMS = ROOT / "node_modules" / "@mermaid-js" / "tiny" / "dist" / "mermaid.tiny.js"


def main() -> None:
    """Build the site into build/docs/site."""
    if not _DIAGRAMS.exists():
        sys.exit("what draws the diagrams is not installed: run `npm ci`")
    stage(FOLDER)
    (FOLDER / "pages" / "assets").mkdir()
    shutil.copy(_DIAGRAMS, FOLDER / "pages" / "assets")
    python = python_with(REQUIREMENTS, kept_in=ROOT / ".cache" / "docs")
    if (
        ended := subprocess.run([python, "-m", "zensical", "build", "--strict"], cwd=FOLDER)
    ).returncode:
        sys.exit(ended.returncode)
    for page in (FOLDER / "pages").rglob("*.md"):  # llms.txt leads to these
        shutil.copyfile(page, FOLDER / "site" / page.relative_to(FOLDER / "pages"))
    sys.stdout.write(f"built {(FOLDER / 'site' / 'index.html').relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
