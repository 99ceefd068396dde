"""The command line, the demo and the local stack."""

from __future__ import annotations

import sys


def main() -> None:
    """The command ``headgate``; says which extra is missing where it can't run."""
    try:
        from ops.cli import main as run
    except ModuleNotFoundError as error:
        sys.exit(f"headgate: the command line needs {error.name}: pip install 'headgate[ops]'")
    run()
