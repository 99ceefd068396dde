"""Virtual environments with pinned requirements, made once: of the contestants, among others."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PEERS = Path(__file__).parent / "peers"
_CACHE = ROOT / ".cache" / "bench"


def python_with(requirements: Path, *, kept_in: Path = _CACHE) -> str:
    """Return the interpreter of an environment with exactly these pinned requirements."""
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    folder = kept_in / f"{requirements.stem}-{digest}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        print(f"installing {requirements.name} into {folder.relative_to(ROOT)} (once)")
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(
            str(python),
            *("-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--require-hashes", "-r", str(requirements)),
        )
        ready.touch()
    return str(python)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)  # noqa: S603 - our own interpreter and pinned files
