"""The app whose console `benchmarks.console` measures, by itself: a console imports its app."""

from __future__ import annotations

from headgate import App

TYPES = ("send-email", "charge-card", "resize-image", "sync-stock")

app = App("bench-console", priorities="all")
for _name in TYPES:
    app.define(_name, dict[str, str])
