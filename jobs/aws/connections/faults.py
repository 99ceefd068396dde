"""Failures of calls to AWS, translated into Headgate's own errors.

The tables list names, since botocore adds classes and codes from version to version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from types import TracebackType
from typing import TypeGuard

from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError
from botocore.parsers import ResponseParserError

from headgate.jobs.aws.connections import skew
from headgate.jobs.errors import (
    AccessDenied,
    BucketMissing,
    CredentialsMissing,
    CredentialsNotConfigured,
    HeadgateError,
    ItemRefused,
    QueueMissing,
    RegionMissing,
    ScheduleGroupMissing,
    SecretMissing,
    ServiceUnavailable,
    TableMissing,
    Throttled,
    TransportError,
)
from headgate.jobs.values.texts import legible, text_of

FOREIGN: tuple[type[Exception], ...] = (BotoCoreError, ClientError, ResponseParserError, OSError)
"""Errors of a call to AWS. aiohttp's errors arrive as botocore's, a timeout is an OSError."""

FOREIGN_AT_OPENING: tuple[type[Exception], ...] = (*FOREIGN, ValueError)
"""Errors of opening a client: botocore raises a ValueError if the endpoint is not a URL."""

_UNCONFIGURED_ERRORS = frozenset(
    {"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "UnknownCredentialError"}
)
_CREDENTIAL_ERRORS = frozenset(
    {
        "CredentialRetrievalError",
        "InfiniteLoopConfigError",
        "LoginError",
        "MetadataRetrievalError",
        "NoAuthTokenError",
        "RefreshWithMFAUnsupportedError",
        "SSOError",
        "TokenRetrievalError",
        "UnknownTokenProviderError",
    }
)
_CONNECTION_ERRORS = frozenset(
    {
        "CapacityNotAvailableError",
        "ClientError",  # aiohttp's; botocore's own of that name is classified by its code
        "ConnectionError",  # botocore's and Python's
        "HTTPClientError",
        "IncompleteReadError",
        "ResponseParserError",  # a proxy's or a load balancer's page instead of an answer
        "SSLError",
        "TimeoutError",
        "gaierror",
    }
)
_WRITES = frozenset({"dynamodb:BatchWriteItem", "dynamodb:PutItem"})
_REFUSAL_CODES = frozenset(
    {
        "ItemCollectionSizeLimitExceededException",
        "RequestEntityTooLarge",
        "SerializationException",
        "ValidationError",
        "ValidationException",
    }
)
"""Codes of a write that blame an item, so that the others of its batch can be written."""

_QUOTES_ITS_VALUES = frozenset({"ParamValidationError", "ValidationError"})

_QUEUE_MISSING_CODES = frozenset({"NonExistentQueue", "QueueDoesNotExist"})
_NOT_FOUND_CODE = "ResourceNotFoundException"
_NOT_FOUND: Mapping[str, Callable[[str], TransportError]] = {
    "dynamodb": TableMissing,
    "scheduler": ScheduleGroupMissing,
    "secretsmanager": SecretMissing,
}
"""The error for that code, by service."""

_BUCKET_MISSING_CODE = "NoSuchBucket"
_CREDENTIAL_CODES = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurityToken",
        "InvalidSignatureException",
        "InvalidToken",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "UnrecognizedClientException",
    }
)
_ACCESS_CODES = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "KmsAccessDenied",
        "UnauthorizedOperation",
    }
)
_THROTTLING_CODES = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "KmsThrottled",
        "LimitExceededException",
        "OverLimit",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)
_UNAVAILABLE_CODES = frozenset(
    {"InternalError", "InternalFailure", "InternalServerError"}
    | {"ReplicatedWriteConflictException", "TransactionConflictException"}
    | {"RequestTimeout", "RequestTimeoutException", "ServiceUnavailable", "Unavailable"}
    | {"ConditionalRequestConflict"}  # another write of the same object is under way
)

_LONGEST_ADDRESS = 200
"""Characters of a redirect's address that are shown."""

_LOOPBACK = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(?![\w.])")

_QUOTED_REQUEST = re.compile(r"\s*The Canonical String for this request.*", re.DOTALL)

_GIVE_CREDENTIALS = (
    "run `aws configure` or `aws sso login`, set AWS_PROFILE, or give the task, function or "
    "instance a role"
)
_GIVE_REGION = (
    "set AWS_REGION, or a region in the profile that AWS_PROFILE names; for an app under "
    "`headgate dev`, set the variables that it prints; in a test, give the code the client of its "
    "harness"
)


class naming:  # noqa: N801 - reads as what it does: `with naming("sqs:SendMessage", queue):`
    """Translate any exception of a call to AWS into the corresponding error of Headgate's.

    Any exception, since an unforeseen answer, such as a proxy's page or half a document, can make
    the SDK's parser and ours raise anything. It then counts as no answer, and never ends a process.
    The arguments are `fault`'s.

    Raises:
        TransportError: in place of any exception that is not Headgate's own.
    """

    __slots__ = ("_action", "_target")

    def __init__(self, action: str, target: str) -> None:
        self._action = action
        self._target = target

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if is_foreign(error):
            raise fault(error, action=self._action, target=self._target) from error


def is_foreign(error: BaseException | None) -> TypeGuard[Exception]:
    """Return True for an error to translate: not one of Headgate's own, nor a cancellation."""
    return isinstance(error, Exception) and not isinstance(error, HeadgateError)


def fault(error: Exception, *, action: str, target: str, opening: bool = False) -> TransportError:
    """Return the error of Headgate's that corresponds to ``error``; raise it ``from error``.

    Args:
        error: The exception from botocore, aiohttp, the network or a parser.
        action: The permission that the call needs, such as ``sqs:SendMessage``.
        target: The physical name of the queue (table, group of schedules) that the call is for.
        opening: True if it was raised while a client was opened, so that it may quote settings,
            but no payload.
    """
    if isinstance(error, ClientError):
        return _refusal(error, action, target)
    names = {base.__name__ for base in type(error).__mro__}
    if names & _UNCONFIGURED_ERRORS:
        return CredentialsNotConfigured(f"no usable AWS credentials: {error}; {_GIVE_CREDENTIALS}")
    if names & _CREDENTIAL_ERRORS:
        return CredentialsMissing(f"no usable AWS credentials: {error}; {_GIVE_CREDENTIALS}")
    if "NoRegionError" in names:
        return RegionMissing(f"no AWS region is configured: {_GIVE_REGION}")
    if names & _CONNECTION_ERRORS:
        return ServiceUnavailable(
            f"{action} on {target!r} got no answer: {type(error).__name__}: {text_of(error)}"
            f"{_hint(error)}"
        )
    if not opening and not isinstance(error, FOREIGN):
        # Raised by reading the answer. Its text may quote a payload.
        return ServiceUnavailable(
            f"{action} on {target!r} got an answer that can't be read: {type(error).__name__}"
        )
    # botocore's complaint about a parameter quotes it, and it may be a payload.
    detail = "a parameter is not valid" if names & _QUOTES_ITS_VALUES else text_of(error)
    kind = ItemRefused if names & _QUOTES_ITS_VALUES and action in _WRITES else TransportError
    return kind(f"{action} on {target!r} failed: {type(error).__name__}: {detail}{_hint(error)}")


def _hint(error: Exception) -> str:
    """Return what to do about a local AWS that isn't there, or an endpoint that is no URL; empty
    for any other fault."""
    if isinstance(error, EndpointConnectionError) and _LOOPBACK.search(text_of(error)):
        return "; nothing listens there: is `headgate dev` running?"
    if isinstance(error, ValueError) and text_of(error).startswith("Invalid endpoint: "):
        return "; write it with http:// or https://, in AWS_ENDPOINT_URL or where else it is set"
    return ""


def _refusal(error: ClientError, action: str, target: str) -> TransportError:
    """Translate a refusal by AWS, by its code or, if that is unknown, by its HTTP status."""
    answer = error.response.get("Error", {})
    code, said = answer.get("Code", "Unknown"), _said(answer.get("Message", "no message"))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    # "AWS.SimpleQueueService.NonExistentQueue", "com.amazonaws.sqs#QueueDoesNotExist"
    name = re.split(r"[.#]", code)[-1]
    if name in _QUEUE_MISSING_CODES:
        return QueueMissing(target)
    if name == _NOT_FOUND_CODE and (missing := _NOT_FOUND.get(action.partition(":")[0])):
        return missing(target)
    if name == _BUCKET_MISSING_CODE and action.startswith("s3:"):
        return BucketMissing(target)
    if name in skew.CODES and (clocks := _clocks(error)):
        return CredentialsMissing(
            f"AWS did not accept the signature: {clocks}; AWS says {code}: {said}"
        )
    if name in _CREDENTIAL_CODES:
        return CredentialsMissing(
            f"AWS did not accept the credentials: {code}: {said}; {_GIVE_CREDENTIALS}"
        )
    if name in _ACCESS_CODES:
        return AccessDenied(
            f"the credentials may not do {action} on {target!r}: allow it in the policy of their "
            f"role or user; AWS says {code}: {said}"
        )
    if name in _THROTTLING_CODES or status == HTTPStatus.TOO_MANY_REQUESTS:
        return Throttled(f"AWS throttled {action} on {target!r}: {code}: {said}")
    failed = status == HTTPStatus.REQUEST_TIMEOUT or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if failed or name in _UNAVAILABLE_CODES:
        return ServiceUnavailable(f"AWS failed at {action} on {target!r}: {code}: {said}")
    if code == str(status) and (leads_to := _redirected_to(error, status)):
        return TransportError(
            f"{action} on {target!r} got a redirect to {leads_to!r}, which is no answer of AWS's "
            "and is not followed: AWS_ENDPOINT_URL has to name the server itself"
        )
    kind = ItemRefused if name in _REFUSAL_CODES and action in _WRITES else TransportError
    return kind(f"AWS refused {action} on {target!r}: {code}: {said}")


def _said(message: object) -> str:
    """Return AWS's message without the request that it quotes beside a wrong signature: that has
    the session token, and errors are logged and shown.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html
    """
    return legible(_QUOTED_REQUEST.sub("", str(message)))


def _redirected_to(refusal: ClientError, status: int) -> str:
    """Return the address that a redirect names, without its query; empty for any other refusal."""
    headers = refusal.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    is_redirect = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
    address = headers.get("location", "").partition("?")[0]
    return legible(address, _LONGEST_ADDRESS) if is_redirect else ""


def _clocks(refusal: ClientError) -> str:
    """Describe the error of this machine's clock, by a refusal; empty if the clock is right."""
    headers = refusal.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    found = skew.skew_of(headers, datetime.now(UTC))
    return skew.told(found) if found is not None and abs(found) >= skew.TOLERATED else ""
