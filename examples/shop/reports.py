"""Reports, computed from the orders and written to files."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Literal

from examples.shop.store import Store

_Row = dict[str, str | int]


def write_report(store: Store, name: str, file_format: Literal["csv", "json"]) -> Path:
    """Write orders, units and revenue by product, atomically; returns the file's path."""
    rows: list[_Row] = [
        {"sku": sku, "orders": orders, "units": units, "revenue_cents": revenue}
        for sku, orders, units, revenue in store.sales()
    ]
    text = _csv(rows) if file_format == "csv" else json.dumps(rows, indent=2)
    return _replace(store.directory / "reports" / f"{Path(name).name}.{file_format}", text)


def _csv(rows: list[_Row]) -> str:
    text = io.StringIO()
    table = csv.DictWriter(text, ["sku", "orders", "units", "revenue_cents"])
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def _replace(path: Path, text: str) -> Path:
    """Write a file atomically: concurrent readers see the old content or the new."""
    path.parent.mkdir(exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    return Path(draft).replace(path)
