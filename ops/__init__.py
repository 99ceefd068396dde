"""The command line, the demo and the local stack."""

from __future__ import annotations

import atexit
import gc
import sys

from headgate.jobs.values.collector import held_off
from headgate.workers.process.exit_codes import EXIT_CONFIGURATION, EXIT_INTERRUPTED
from headgate.workers.process.starting import end_on_signals, is_worker

if not __name__.startswith("headgate."):
    raise ImportError("'ops' is a folder of Headgate's sources: write `import headgate.ops`")


def main() -> None:
    """Run the command ``headgate``, or name the extra that it needs."""
    if is_worker(sys.argv[1:]):
        end_on_signals()  # first, since the imports take most of a second
    # Python then looks for no cycles among the SDKs' objects as it ends: 0.03 s in place of 0.2.
    atexit.register(gc.freeze)
    try:
        _run()
    except KeyboardInterrupt:  # during an import, or where a command waits
        sys.exit(EXIT_INTERRUPTED)


def _run() -> None:
    try:
        with held_off():  # looking for garbage would take a fifth of the imports
            from headgate.ops.cli.main import main as run
    except ModuleNotFoundError as error:
        needed = f"headgate: the command line needs {error.name}: pip install 'headgate[ops]'"
        print(needed, file=sys.stderr)
        sys.exit(EXIT_CONFIGURATION)
    run()
