"""Configuration of a worker's log: JSON for machines, plain text for a terminal."""

from __future__ import annotations

import logging
import sys

from pythonjsonlogger.json import JsonFormatter

from headgate.jobs.core.event_log import BoundedTraces, EventsByFields, name_job
from headgate.jobs.values.texts import printable

_SDKS = ("aiobotocore", "boto3", "botocore")
"""Loggers that write whole requests, including payloads, at DEBUG, and nothing useful at INFO."""


def configure(*, level: int = logging.INFO, json: bool | None = None) -> None:
    """Send Headgate's and the handlers' logs to standard error.

    Args:
        level: the minimum level that is written.
        json: write one JSON object per line; None does so unless standard error is a terminal.
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
    """Return a formatter that writes one JSON object per line."""
    return _JsonFormatter(
        "{levelname}{name}{message}",
        style="{",
        timestamp="at",  # ISO 8601 in UTC
        rename_fields={"levelname": "level", "name": "logger"},
    )


class _JsonFormatter(EventsByFields, JsonFormatter):
    """The formatter of python-json-logger, with bounded tracebacks and events' fields once."""


class _PlainFormatter(BoundedTraces):
    """A plain-text formatter for terminals."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
