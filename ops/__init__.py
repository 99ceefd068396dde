"""The command line, the demo and the local stack."""

from __future__ import annotations

import sys

from workers.starting import end_on_signals, is_worker


def main() -> None:
    """The command ``headgate``; says which extra is missing where it can't run."""
    if is_worker(sys.argv[1:]):
        end_on_signals()  # first, since the import below takes most of a second
    try:
        from ops.cli import main as run
    except ModuleNotFoundError as error:
        sys.exit(f"headgate: the command line needs {error.name}: pip install 'headgate[ops]'")
    run()
