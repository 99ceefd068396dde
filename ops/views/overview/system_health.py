"""Output of ``headgate health``: a verdict on the whole system, and its reasons."""

from __future__ import annotations

from typing import Any

from headgate.jobs.client.overview.health import SystemHealth, SystemState
from headgate.ops.views.output import in_line, show, show_json
from headgate.ops.views.pauses import in_words, values_of

EXIT_CODES = {SystemState.HEALTHY: 0, SystemState.DEGRADED: 1, SystemState.UNHEALTHY: 2}


def show_health(found: SystemHealth, *, as_json: bool) -> int:
    """Print the verdict; returns the exit code that stands for it."""
    if as_json:
        show_json(_values(found))
    else:
        show(found.state)
        for reason in found.reasons:
            show(in_line(f"{reason.state}: {reason.text}"))
        for pause in found.pauses:
            show(in_line(in_words(pause)))
        for name in found.paused_schedules:
            show(in_line(f"paused: the schedule {name!r}"))
        for what, why in found.unknown.items():
            show(in_line(f"{what} can't be read: {why}"))
    return EXIT_CODES[found.state]


def _values(found: SystemHealth) -> dict[str, Any]:
    return {
        "state": found.state,
        "reasons": [
            {"state": each.state, "queue": each.queue, "text": each.text} for each in found.reasons
        ],
        "paused": [values_of(each) for each in found.pauses],
        "paused_schedules": list(found.paused_schedules),
        "unknown": dict(found.unknown),
    }
