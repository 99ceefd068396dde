"""The log of a function, as JSON lines."""

from __future__ import annotations

import logging

from headgate.jobs.core.event_log import EventsByFields, name_job
from headgate.jobs.errors import LibraryMissing

try:
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
except ImportError as error:
    raise LibraryMissing("headgate.lambdas", "aws-lambda-powertools", "headgate[lambda]") from error


class _Formatter(EventsByFields, LambdaPowertoolsFormatter):
    """The formatter of Powertools, with bounded tracebacks and events' fields once."""


def log_as_json() -> LambdaPowertoolsFormatter | None:
    """Make Headgate's loggers, and those of handlers' contexts, log as Powertools does.

    Returns the formatter; None if the user has configured these loggers.
    """
    logger = logging.getLogger("headgate")
    if logger.handlers:
        return None
    formatter = _Formatter()
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    handler.addFilter(name_job)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # Lambda's own handler would write each line again
    return formatter
