"""The time that imports take, in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.environments import ROOT


def import_ms(module: str) -> float:
    """Return the milliseconds that importing a module adds to a fresh interpreter's start."""
    nothing = _run_s("pass")
    return (_run_s(f"import {module}") - nothing) * 1000


def _run_s(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)  # noqa: S603 - our own
    return time.perf_counter() - started
