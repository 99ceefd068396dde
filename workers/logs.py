"""How a worker writes its log: JSON for machines, plain for a terminal."""

from __future__ import annotations

import logging
import sys

from pythonjsonlogger.json import JsonFormatter

from headgate.jobs.core.event_log import BoundedTraces, name_job

_SDKS = ("aiobotocore", "boto3", "botocore")
"""They log whole requests, payloads included, at DEBUG, and nothing of use at INFO."""


def configure(*, level: int = logging.INFO, json: bool | None = None) -> None:
    """Send Headgate's and the handlers' logs to standard error.

    Args:
        level: the least level that is written.
        json: one JSON object a line; None means whenever standard error is no terminal.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(name_job)
    if json if json is not None else not sys.stderr.isatty():
        handler.setFormatter(json_formatter())
    else:
        handler.setFormatter(_PlainFormatter("%(asctime)s %(levelname)-7s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _SDKS:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def json_formatter() -> logging.Formatter:
    """One JSON object a line."""
    return _JsonFormatter(
        "{levelname}{name}{message}",
        style="{",
        timestamp="at",  # ISO 8601 in UTC
        rename_fields={"levelname": "level", "name": "logger"},
    )


class _JsonFormatter(BoundedTraces, JsonFormatter):
    """Python-json-logger's, with bounded tracebacks."""


class _PlainFormatter(BoundedTraces):
    """For people: a failure's traceback goes below its line."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        trace: str | None = getattr(record, "traceback", None)
        return f"{line}\n{trace.rstrip()}" if trace else line
