"""The process of `headgate dev` that runs the app, started anew after every edit.

It imports all that is not the app's, and waits for an edit (a line with the digests of what is
provisioned already, on standard input). Then it loads the app, provisions what that declares, fires
its schedules, sweeps its dead letters, serves its console, and is a worker as `headgate worker` is
one. All that it tells its parent are lines of its log, in JSON, over a pipe of their own: what the
app prints, and how it configures its logs, changes none of them.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from importlib import import_module

from headgate.jobs.values.own_log import OwnLog
from headgate.ops.dev import notes
from headgate.workers.process.exit_codes import EXIT_CLEAN
from headgate.workers.process.starting import end_on_signals

DRAIN = timedelta(seconds=1.2)
"""Time that running jobs have to end once the code has changed, or at Ctrl-C: long enough for polls
to return, so that they leave no message hidden."""

_RECEIVE_WAIT = timedelta(seconds=1)

_HEAVY = (
    "aiobotocore.session",
    "boto3.session",
    "headgate.ops.dev.preparing",
    "headgate.ops.dev.services",
    "headgate.workers.logs",
    "headgate.workers.process.entry",
)
"""Modules that take most of the time between an edit and the first run of its code."""

_log = OwnLog(notes.LOGGER)


def main(arguments: Sequence[str]) -> int:
    """Run the app at a path until SIGTERM; return the process's exit code.

    Args:
        arguments: the app's path; the descriptor of the pipe to the parent; and that of the
            console's socket, or an empty text.
    """
    end_on_signals(tell=False)  # first, since the imports take most of a second
    import_all()
    if not (order := sys.stdin.readline()):
        return EXIT_CLEAN  # there was no edit any more
    from headgate.workers.logs import configure

    configure(json=True)
    path, parent, console = arguments
    return _run(path, order.strip(), console, _Lines(int(parent)))


def import_all() -> None:
    """Import what every app needs, none of which is a user's."""
    for name in _HEAVY:
        import_module(name)


class _Lines:
    """Headgate's own lines, and those of jobs' logs, on the way to the parent.

    Args:
        descriptor: of the pipe.
    """

    def __init__(self, descriptor: int) -> None:
        from headgate.jobs.core.event_log import name_job
        from headgate.workers.logs import json_formatter

        os.set_inheritable(descriptor, False)
        stream = os.fdopen(descriptor, "w", encoding="utf-8", closefd=False)  # until the end
        self._handler = logging.StreamHandler(stream)
        self._handler.setFormatter(json_formatter())
        self._handler.addFilter(name_job)

    def direct(self) -> None:
        """Have them go to the parent alone, whatever an app has configured until now."""
        ours, worker = logging.getLogger("headgate"), logging.getLogger("headgate.worker")
        ours.handlers, ours.propagate = [self._handler], False
        ours.setLevel(logging.INFO)
        worker.handlers, worker.propagate = [], True
        worker.setLevel(logging.DEBUG)  # which tells of starts, too


def _run(path: str, provisioned: str, console: str, lines: _Lines) -> int:
    from headgate.jobs.errors import HeadgateError
    from headgate.ops.dev import services
    from headgate.ops.dev.console_server import console_served
    from headgate.ops.dev.faults import users_traceback
    from headgate.ops.dev.preparing import prepared
    from headgate.workers.configuration import WorkerSettings
    from headgate.workers.process.entry import run
    from headgate.workers.process.supervisor_link import Leash

    # Before other threads run: botocore copies the environment, which must not change meanwhile.
    leash = Leash.from_env(os.environ)
    lines.direct()
    try:
        try:
            found = prepared(path, provisioned)
        finally:
            lines.direct()  # the app may have configured logs of its own
        services.start(found.app)
        _log.info(notes.READY, extra=found.description())
        settings = WorkerSettings(drain=DRAIN, receive_wait=_RECEIVE_WAIT)
        with console_served(found.app, console) as stop_serving:
            return run(found.app, settings, on_stop=stop_serving, leash=leash)
    except HeadgateError as error:
        _log.error(notes.BROKEN, extra={"reason": str(error), "trace": users_traceback(error)})
        return notes.EXIT_BROKEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
