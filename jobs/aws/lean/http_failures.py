"""Failures of HTTP, translated into the errors that botocore raises for them."""

from __future__ import annotations

import ssl

from botocore.exceptions import (
    BotoCoreError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)

from headgate.jobs.aws.lean.http1 import AnswerBroken, AnswerTooLarge

FAILURES = (OSError, AnswerBroken, AnswerTooLarge)
"""Errors of a request over an open connection; a timeout is an OSError, and so is TLS's."""


def failed_to_open(error: OSError, url: str) -> BotoCoreError:
    """Return botocore's error for a connection that was not opened; raise it ``from error``."""
    if isinstance(error, ssl.SSLError):
        return SSLError(endpoint_url=url, error=error)
    if isinstance(error, TimeoutError):
        return ConnectTimeoutError(endpoint_url=url, error=error)
    return EndpointConnectionError(endpoint_url=url, error=error)


def failed(error: Exception, url: str) -> BotoCoreError:
    """Return botocore's error for a request that got no answer; raise it ``from error``."""
    if isinstance(error, AnswerTooLarge):
        return HTTPClientError(error=error)
    if isinstance(error, TimeoutError):
        return ReadTimeoutError(endpoint_url=url, error=error)
    return ConnectionClosedError(endpoint_url=url, error=type(error).__name__)
