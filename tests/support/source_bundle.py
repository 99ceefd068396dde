"""The bundle of a function on a local AWS, whose dependencies are installed where it runs."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def source_bundle(**files: str) -> bytes:
    """Return a zip of what functions import of Headgate; ``files`` are further modules, by name."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as bundle:
        for name, text in files.items():
            bundle.writestr(f"{name}.py", text)
        for package in ("jobs", "lambdas"):
            for path in sorted((_ROOT / package).rglob("*.py")):
                bundle.write(path, path.relative_to(_ROOT))
    return file.getvalue()
