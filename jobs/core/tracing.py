"""The trace that a submission belongs to, if its process uses OpenTelemetry."""

from __future__ import annotations

import sys


def current_traceparent() -> str | None:
    """Return the W3C traceparent of the current span, or None if there is none.

    A process that has not imported OpenTelemetry has no span, so the check costs it nothing.
    https://www.w3.org/TR/trace-context/#traceparent-header
    """
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
