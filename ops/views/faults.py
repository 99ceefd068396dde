"""Output of ``headgate check``: the faults of an app."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.jobs.errors import Fault
from headgate.ops.views.output import in_line, show, show_json

EXIT_FAULTY = 1
"""An app has faults that keep it from being deployed."""


def show_faults(faults: Sequence[Fault], *, as_json: bool) -> int:
    """Print faults and advice; returns the exit code."""
    if as_json:
        show_json(faults)
    else:
        if all(fault.severity == "advice" for fault in faults):
            show("no faults")
        for fault in faults:
            show(in_line(f"{fault.severity}: {fault}"))
    return EXIT_FAULTY if any(fault.severity == "error" for fault in faults) else 0
