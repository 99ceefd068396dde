"""Classification of errors: the chance that a retry helps, and the wait that an error asks for.

Errors come from libraries that Headgate doesn't depend on and must not import, so they are
recognised by their attributes (an HTTP status, an AWS error code, headers) and by the qualified
names of their classes. These may hold anything; nothing in this module raises because of it.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from headgate.jobs.errors import (
    AccessDenied,
    CredentialsMissing,
    JobTimeout,
    PartlySubmitted,
    QueueMissing,
    RegionMissing,
    ResultNotSerializable,
    SubmissionError,
    TransportError,
)

LONGEST_WAIT_S = 365 * 86_400.0
"""The longest wait in seconds, a year; a longer one is taken for a mistake, wherever it is from."""


class ErrorKind(StrEnum):
    """The outlook of another attempt after a failure."""

    TRANSIENT = "transient"
    """The error may pass by itself: a lost connection, a timeout, throttling, a server's fault."""
    PERMANENT = "permanent"
    """Another attempt would fail alike: validation, authentication, a refused request."""
    UNKNOWN = "unknown"
    """The error indicates neither; ``Retry.unknown`` decides."""


def classify(error: BaseException) -> ErrorKind:
    """Classify an error by its class and attributes, or else by its cause.

    The first error of the ``raise ... from ...`` chain with a known kind decides, since a handler
    often wraps the error that matters: ``raise GatewayBusy() from http_error``. An error that was
    only being handled meanwhile (``__context__``) is not a cause and isn't followed.

    An exception group (``asyncio.TaskGroup`` raises them) is PERMANENT if one member is, since that
    one would fail again, and TRANSIENT if all members are.
    """
    return combined(map(_kind_of_chain, leaves(error)))


def combined(kinds: Iterable[ErrorKind]) -> ErrorKind:
    """Combine the kinds of several errors into the kind of the whole failure."""
    found = set(kinds)
    if ErrorKind.PERMANENT in found:
        return ErrorKind.PERMANENT
    return ErrorKind.TRANSIENT if found == {ErrorKind.TRANSIENT} else ErrorKind.UNKNOWN


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group, at any depth, or the error itself."""
    waiting = [error]
    while waiting:
        match waiting.pop():
            case BaseExceptionGroup() as group:
                waiting.extend(reversed(group.exceptions))
            case leaf:
                yield leaf


def _kind_of_chain(error: BaseException) -> ErrorKind:
    kinds = map(_kind_of_link, _chain(error))
    return next((kind for kind in kinds if kind is not ErrorKind.UNKNOWN), ErrorKind.UNKNOWN)


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    seen: set[int] = set()  # `raise a from b` and `raise b from a` make a cycle
    while link is not None and id(link) not in seen:
        yield link
        seen.add(id(link))
        link = link.__cause__


def _kind_of_link(error: BaseException) -> ErrorKind:
    for look in _LOOKS:
        if kind := look(error):
            return kind
    return ErrorKind.UNKNOWN


# --- the error is Headgate's own -----------------------------------------------------------------


def _kind_of_own(error: BaseException) -> ErrorKind | None:
    match error:
        case JobTimeout() | TransportError(transient=True):
            return ErrorKind.TRANSIENT
        case AccessDenied() | CredentialsMissing() | QueueMissing() | RegionMissing():
            return ErrorKind.PERMANENT
        case SubmissionError() | ResultNotSerializable():
            return ErrorKind.PERMANENT
        case PartlySubmitted() if not any(refusal.sender_fault for refusal in error.refusals):
            return ErrorKind.TRANSIENT
    return None


# --- the error holds a response ------------------------------------------------------------------

_THROTTLING_CODES = frozenset(
    {
        # Codes that botocore's standard retries treat as throttling or transient (botocore 1.43,
        # botocore/retries/standard.py), ...
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "RequestTimeoutException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
        # ... and other names for these in the service models (SQS, SNS, KMS, DynamoDB).
        "KMS.ThrottlingException",
        "KMSThrottling",
        "KMSThrottlingException",
        "KmsThrottled",
        "KmsThrottlingException",
        "OverLimit",
        "ReplicatedWriteConflictException",
        "Throttled",
        "TransactionConflictException",
    }
)


def _kind_by_aws_code(error: BaseException) -> ErrorKind | None:
    # Before the status: DynamoDB throttles with HTTP 400, SQS with 403.
    code = _dig(error, "response", "Error", "Code")
    throttled = isinstance(code, str) and code in _THROTTLING_CODES
    return ErrorKind.TRANSIENT if throttled else None


_STATUS_PATHS = (
    ("response", "ResponseMetadata", "HTTPStatusCode"),  # botocore
    ("response", "status_code"),  # httpx, requests
    ("response", "status"),
    ("status",),  # aiohttp
    ("status_code",),
    ("http_status",),  # stripe
    ("code",),  # urllib; elsewhere a string, a method or a database's own number
)
_TRANSIENT_STATUSES = frozenset({408, 425, 429, *range(500, 600)})
_PERMANENT_STATUSES = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 410, 411, 413, 414, 415, 422, 431, 451}
)
"""Answers that the same request gets again. Not among them: 409, 412 and 423, which depend on what
others do meanwhile and end once the handler reads anew, and statuses whose meaning is the server's.
https://www.rfc-editor.org/rfc/rfc9110#section-15.5"""


def _kind_by_status(error: BaseException) -> ErrorKind | None:
    found = (_dig(error, *path) for path in _STATUS_PATHS)
    status = next((value for value in found if _is_http_error(value)), None)
    if status is None:
        return None
    if status in _TRANSIENT_STATUSES:
        return ErrorKind.TRANSIENT
    # An answer proves a connection, so the class of an error with another 4xx says nothing more.
    return ErrorKind.PERMANENT if status in _PERMANENT_STATUSES else ErrorKind.UNKNOWN


def _is_http_error(value: object) -> bool:
    return isinstance(value, int) and 400 <= value < 600


# --- the error's class is known ------------------------------------------------------------------

_KIND_BY_CLASS = dict.fromkeys(
    (
        "aiohttp.client_exceptions.ClientConnectionError",
        "aiohttp.client_exceptions.ClientPayloadError",
        "asyncpg.exceptions.CannotConnectNowError",
        "asyncpg.exceptions.DeadlockDetectedError",
        "asyncpg.exceptions.PostgresConnectionError",
        "asyncpg.exceptions.SerializationError",
        "asyncpg.exceptions.TooManyConnectionsError",
        "botocore.exceptions.ConnectionError",
        "botocore.exceptions.HTTPClientError",
        "botocore.exceptions.IncompleteReadError",
        "builtins.ConnectionError",
        "builtins.TimeoutError",
        "django.db.utils.OperationalError",
        "http.client.IncompleteRead",
        "httpx.NetworkError",
        "httpx.ProxyError",
        "httpx.RemoteProtocolError",
        "httpx.TimeoutException",
        "psycopg.OperationalError",
        "psycopg2.OperationalError",
        "pymongo.errors.ConnectionFailure",
        "pymysql.err.OperationalError",
        "redis.exceptions.ConnectionError",
        "redis.exceptions.TimeoutError",
        "requests.exceptions.ChunkedEncodingError",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.RetryError",
        "requests.exceptions.Timeout",
        "socket.gaierror",
        "sqlalchemy.exc.OperationalError",
        "sqlalchemy.exc.TimeoutError",
        "urllib.error.URLError",
        "urllib3.exceptions.MaxRetryError",
        "urllib3.exceptions.NewConnectionError",
        "urllib3.exceptions.ProtocolError",
        "urllib3.exceptions.ProxyError",
        "urllib3.exceptions.TimeoutError",
    ),
    ErrorKind.TRANSIENT,
)
_KIND_BY_CLASS |= dict.fromkeys(
    (
        "botocore.exceptions.NoCredentialsError",
        "botocore.exceptions.ParamValidationError",
        "botocore.exceptions.PartialCredentialsError",
        "psycopg.errors.InvalidAuthorizationSpecification",
        "psycopg.errors.InvalidPassword",
        "pydantic_core._pydantic_core.ValidationError",
        "redis.exceptions.AuthenticationError",  # a ConnectionError there
        "redis.exceptions.AuthorizationError",  # a ConnectionError there
    ),
    ErrorKind.PERMANENT,
)
_KIND_BY_CLASS["urllib.error.HTTPError"] = ErrorKind.UNKNOWN  # a URLError, but it got an answer


def _kind_by_class(error: BaseException) -> ErrorKind | None:
    # The nearest class decides, so that an entry for a subclass can narrow one for its base.
    # OSError has no entry: it stands for a lost network as well as for a missing file.
    names = (f"{cls.__module__}.{cls.__qualname__}" for cls in type(error).__mro__)
    return next((_KIND_BY_CLASS[name] for name in names if name in _KIND_BY_CLASS), None)


_NETWORK_ERRNOS = frozenset(
    {errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH}
)


def _kind_by_errno(error: BaseException) -> ErrorKind | None:
    # Python has no class for these: "No route to host" is a plain OSError.
    number = _dig(error, "errno") if isinstance(error, OSError) else None
    unreachable = isinstance(number, int) and number in _NETWORK_ERRNOS
    return ErrorKind.TRANSIENT if unreachable else None


_LOOKS = (_kind_of_own, _kind_by_aws_code, _kind_by_status, _kind_by_class, _kind_by_errno)


# --- the error says when to retry ----------------------------------------------------------------

_HEADER_PATHS = (
    ("response", "ResponseMetadata", "HTTPHeaders"),  # botocore
    ("response", "headers"),  # httpx, requests
    ("headers",),  # aiohttp, urllib
)
_SECONDS = r"[+-]?[0-9]+(\.[0-9]+)?"


def retry_after_s(error: BaseException, now: datetime) -> float | None:
    """Return the seconds that an error asks to wait from ``now`` (aware), or None if it doesn't.

    Read from the error's ``retry_after`` (seconds, a timedelta, or either form of the header), else
    from the ``Retry-After`` header of its response: seconds or an HTTP date (RFC 9110, section
    10.2.3, https://www.rfc-editor.org/rfc/rfc9110#field.retry-after). Its causes are read too, as
    in `classify`; among a group's members the longest wait wins.

    A time in the past or a negative number gives 0. A value that is malformed or longer than a year
    is ignored.
    """
    waits = [wait for leaf in leaves(error) if (wait := _wait_of_chain(leaf, now)) is not None]
    return max(waits, default=None)


def _wait_of_chain(error: BaseException, now: datetime) -> float | None:
    asked = (_wait_s(value, now) for link in _chain(error) for value in _asked_by(link))
    return next((wait for wait in asked if wait is not None), None)


def _asked_by(error: BaseException) -> Iterator[object]:
    yield _dig(error, "retry_after")
    for path in _HEADER_PATHS:
        yield _header(_dig(error, *path), "retry-after")


def _wait_s(value: object, now: datetime) -> float | None:
    match value:
        case bool():
            return None
        case int() | float():
            # NaN compares as False, and an int may be too long for a float.
            return float(max(0, value)) if value <= LONGEST_WAIT_S else None
        case timedelta():
            return _wait_s(value.total_seconds(), now)
        case str() if seconds := re.fullmatch(_SECONDS, value.strip(" \t")):
            return _wait_s(float(seconds[0]), now)
        case str():
            date = _http_date(value)
            return None if date is None else _wait_s(date - now, now)
    return None


def _http_date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # its import takes milliseconds

    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    # Of HTTP's three formats only that of C's asctime() names no zone; all are in UTC.
    return date if date.tzinfo else date.replace(tzinfo=UTC)


# --- looking into foreign objects ----------------------------------------------------------------


def _dig(root: object, *path: str) -> object:
    """Follow keys and attributes from an error; return None if one is missing."""
    found: Any = root
    for name in path:
        found = _tolerantly(_get, found, name)
    return found


def _get(holder: Any, name: str) -> object:
    # No test for truth: a requests.Response with an error status is falsy.
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _header(headers: object, name: str) -> object:
    return _tolerantly(_get_ignoring_case, headers, name)


def _get_ignoring_case(headers: Any, name: str) -> object:
    # urllib's headers are no Mapping, and botocore's are a plain dict: both have items().
    return next((value for key, value in headers.items() if key.lower() == name), None)


def _tolerantly(read: Callable[[Any, str], object], holder: Any, name: str) -> object:
    try:
        return read(holder, name)
    except Exception:  # noqa: BLE001  a foreign property may raise anything: ignored then
        return None
