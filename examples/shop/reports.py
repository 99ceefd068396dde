"""Reports, computed from the orders and written to files."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

from examples.shop.contracts import Report
from examples.shop.store import Store

MEDIA_TYPES = {"csv": "text/csv", "json": "application/json", "html": "text/html"}

_Row = dict[str, str | int]

_COLUMNS = {
    "sales": ("sku", "orders", "units", "revenue_cents"),
    "stock": ("sku", "pieces"),
}


def write_report(store: Store, report: Report) -> Path:
    """Write a report, atomically; returns the file's path."""
    columns = _COLUMNS[report.kind]
    rows = [dict(zip(columns, values, strict=True)) for values in _found(store, report)]
    chosen = [row for row in rows if not report.skus or row["sku"] in report.skus]
    name = f"{Path(report.name).name}.{report.format}"
    return _replace(store.directory / "reports" / name, _FORMATS[report.format](columns, chosen))


def _found(store: Store, report: Report) -> Sequence[tuple[str | int, ...]]:
    return store.sales() if report.kind == "sales" else store.stock()


def _csv(columns: Sequence[str], rows: Sequence[_Row]) -> str:
    text = io.StringIO()
    table = csv.DictWriter(text, columns)
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def _json(_columns: Sequence[str], rows: Sequence[_Row]) -> str:
    return json.dumps(rows, indent=2)


def _html(columns: Sequence[str], rows: Sequence[_Row]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(str(row[name]))}</td>' for name in columns)}</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


_FORMATS = {"csv": _csv, "json": _json, "html": _html}


def _replace(path: Path, text: str) -> Path:
    """Write a file atomically: concurrent readers see the old content or the new."""
    path.parent.mkdir(exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    return Path(draft).replace(path)
