"""What an error says about trying again: whether it may help, and how soon.

Errors come from libraries that Headgate doesn't depend on and must not import, so they are read by
what they carry (an HTTP status, an AWS error code, headers) and by the qualified names of their
classes. A foreign error may carry anything; nothing in here raises because of it.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from headgate.jobs.errors import (
    AccessDenied,
    CredentialsMissing,
    JobTimeout,
    PartlySubmitted,
    QueueMissing,
    RegionMissing,
    SubmissionError,
    TransportError,
)

LONGEST_WAIT_S = 365 * 86_400.0
"""A wait of more than a year, in seconds, is taken for a mistake, whoever asks for it."""


class ErrorKind(StrEnum):
    """What a failure promises about the next attempt."""

    TRANSIENT = "transient"
    """It may pass by itself: a lost connection, a timeout, throttling, a server's own fault."""
    PERMANENT = "permanent"
    """The same attempt would fail again: validation, authentication, a refused request."""
    UNKNOWN = "unknown"
    """Nothing known speaks for either; ``Retry.unknown`` decides."""


def classify(error: BaseException) -> ErrorKind:
    """Judge an error by what it is and carries, or else by what caused it.

    The first link of the ``raise ... from ...`` chain that says something decides, since a handler
    often wraps the error that tells: ``raise GatewayBusy() from http_error``. An error that merely
    came up while another was handled (``__context__``) was not caused by it and isn't followed.

    An exception group (``asyncio.TaskGroup`` raises them) is PERMANENT if one member is, since that
    one would fail again, and TRANSIENT if all members are.
    """
    return combined(map(_kind_of_chain, leaves(error)))


def combined(kinds: Iterable[ErrorKind]) -> ErrorKind:
    """The kind of a failure that is made of several."""
    found = set(kinds)
    if ErrorKind.PERMANENT in found:
        return ErrorKind.PERMANENT
    return ErrorKind.TRANSIENT if found == {ErrorKind.TRANSIENT} else ErrorKind.UNKNOWN


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors that a group holds, at any depth; or the error itself."""
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
    seen: set[int] = set()  # `raise a from b` and `raise b from a` make a circle
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
        case SubmissionError():
            return ErrorKind.PERMANENT
        case PartlySubmitted() if not any(refusal.sender_fault for refusal in error.refusals):
            return ErrorKind.TRANSIENT
    return None


# --- the error carries an answer -----------------------------------------------------------------

_THROTTLING_CODES = frozenset(
    {
        # What botocore's own standard retries take for throttling or transient (botocore 1.43,
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
        # ... and what the service models call the same thing (SQS, SNS, KMS, DynamoDB).
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
_PERMANENT_STATUSES = frozenset({400, 401, 403, 404, 422})


def _kind_by_status(error: BaseException) -> ErrorKind | None:
    found = (_dig(error, *path) for path in _STATUS_PATHS)
    status = next((value for value in found if _is_http_error(value)), None)
    if status is None:
        return None
    if status in _TRANSIENT_STATUSES:
        return ErrorKind.TRANSIENT
    # Who got an answer had a connection: of another 4xx the class has nothing more to say.
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
    # The nearest class decides, so that an entry can be narrowed by one for its subclass. OSError
    # has none: it is a lost network as well as a missing file.
    names = (f"{cls.__module__}.{cls.__qualname__}" for cls in type(error).__mro__)
    return next((_KIND_BY_CLASS[name] for name in names if name in _KIND_BY_CLASS), None)


_NETWORK_ERRNOS = frozenset(
    {errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH}
)


def _kind_by_errno(error: BaseException) -> ErrorKind | None:
    # Python gives these no class of their own: "No route to host" is a plain OSError.
    number = _dig(error, "errno") if isinstance(error, OSError) else None
    unreachable = isinstance(number, int) and number in _NETWORK_ERRNOS
    return ErrorKind.TRANSIENT if unreachable else None


_LOOKS = (_kind_of_own, _kind_by_aws_code, _kind_by_status, _kind_by_class, _kind_by_errno)


# --- the error says when to come back ------------------------------------------------------------

_HEADER_PATHS = (
    ("response", "ResponseMetadata", "HTTPHeaders"),  # botocore
    ("response", "headers"),  # httpx, requests
    ("headers",),  # aiohttp, urllib
)
_SECONDS = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def retry_after_s(error: BaseException, now: datetime) -> float | None:
    """The seconds that an error asks to wait from ``now`` (aware), or None if it doesn't.

    Read from the error's ``retry_after`` (seconds, a timedelta, or either form of the header), else
    from the ``Retry-After`` header of the response it carries: seconds or an HTTP date (RFC 9110,
    section 10.2.3, https://www.rfc-editor.org/rfc/rfc9110#field.retry-after). Its causes are asked
    too, as in `classify`; of a group's members the one that asks for the most is heard.

    A time in the past or a negative number is 0. What is malformed or longer than a year is None,
    as if it had not been said.
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
        case str() if seconds := _SECONDS.fullmatch(value.strip(" \t")):
            return _wait_s(float(seconds[0]), now)
        case str():
            date = _http_date(value)
            return None if date is None else _wait_s(date - now, now)
    return None


def _http_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    # Of HTTP's three formats the one from C's asctime() names no zone; all are UTC.
    return date if date.tzinfo else date.replace(tzinfo=UTC)


# --- looking into foreign objects ----------------------------------------------------------------


def _dig(root: object, *path: str) -> object:
    """Follow keys and attributes down from an error; None where there is nothing to follow."""
    found: Any = root
    for name in path:
        found = _tolerantly(_get, found, name)
    return found


def _get(holder: Any, name: str) -> object:
    # `is None` and truth are not asked: a requests.Response with an error status is falsy.
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _header(headers: object, name: str) -> object:
    return _tolerantly(_get_ignoring_case, headers, name)


def _get_ignoring_case(headers: Any, name: str) -> object:
    # urllib's headers are no Mapping, and botocore's are a plain dict: both have items().
    return next((value for key, value in headers.items() if key.lower() == name), None)


def _tolerantly(read: Callable[[Any, str], object], holder: Any, name: str) -> object:
    try:
        return read(holder, name)
    except Exception:  # noqa: BLE001  a foreign property may raise anything: it then says nothing
        return None
