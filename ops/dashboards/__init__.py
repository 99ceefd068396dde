"""Dashboards that are shipped as they are, for tools that read Prometheus's metrics."""

from __future__ import annotations

from importlib import resources


def grafana_dashboard() -> str:
    """Return the dashboard of Grafana's JSON model, over the metrics of ``headgate worker``."""
    return (resources.files(__name__) / "grafana.json").read_text(encoding="utf-8")
