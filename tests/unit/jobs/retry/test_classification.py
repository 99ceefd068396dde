from __future__ import annotations

import errno
import importlib
import importlib.util
import io
import socket
import urllib.error
from email.message import Message
from http import HTTPStatus
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import requests
import urllib3.exceptions
import yarl
from botocore import exceptions as boto
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import TypeAdapter, ValidationError

from headgate.jobs import errors
from headgate.jobs.retry.classification import _KIND_BY_CLASS, ErrorKind, classify

TRANSIENT, PERMANENT, UNKNOWN = ErrorKind


def named(name: str, *bases: type[Exception]) -> Exception:
    """Return an error of a class of that qualified name, for a library that isn't installed here.

    httpx names its exceptions after the package (``__module__ = "httpx"``), wherever they are
    defined, and so does psycopg.
    """
    module, _, qualname = name.rpartition(".")
    kind = type(qualname, bases or (Exception,), {"__module__": module, "__qualname__": qualname})
    error: Exception = kind()
    return error


def carrying(**attributes: object) -> Exception:
    error = Exception("foreign")
    error.__dict__.update(attributes)
    return error


def boto_error(code: str, status: int | None = None) -> boto.ClientError:
    response: Any = {"Error": {"Code": code, "Message": ""}}
    if status is not None:
        response["ResponseMetadata"] = {"HTTPStatusCode": status}
    return boto.ClientError(response, "SomeOperation")


def requests_error(status: int) -> Exception:
    response = requests.Response()
    response.status_code = status
    assert not response, "an error's response is falsy in requests: no `if response` in the code"
    error: Exception = requests.HTTPError("refused", response=response)
    return error


def aiohttp_error(status: int) -> Exception:
    url = yarl.URL("https://example.com")
    request = aiohttp.RequestInfo(url, "GET", CIMultiDictProxy(CIMultiDict()), url)
    return aiohttp.ClientResponseError(request, (), status=status)


def urllib_error(status: int) -> Exception:
    return urllib.error.HTTPError("https://example.com", status, "", Message(), io.BytesIO())


def httpx_error(status: int) -> Exception:
    error = named("httpx.HTTPStatusError")
    error.__dict__["response"] = SimpleNamespace(status_code=status, headers={})
    return error


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(int).validate_python("no number")
    return caught.value


# --- by the response that the error carries ------------------------------------------------------


@pytest.mark.parametrize(
    "answered",
    [
        requests_error,
        aiohttp_error,
        urllib_error,
        httpx_error,
        lambda status: boto_error("Whatever", status),
        lambda status: carrying(response=SimpleNamespace(status=status)),
        lambda status: carrying(status_code=status),
        lambda status: carrying(http_status=status),
        lambda status: carrying(status=HTTPStatus(status)),
    ],
    ids=["requests", "aiohttp", "urllib", "httpx", "botocore", "status", "code", "stripe", "enum"],
)
@pytest.mark.parametrize(
    ("status", "kind"),
    [(status, TRANSIENT) for status in (408, 425, 429, 500, 502, 503, 504)]
    + [(status, PERMANENT) for status in (400, 401, 402, 403, 404, 405, 406, 410)]
    + [(status, PERMANENT) for status in (411, 413, 414, 415, 422, 431, 451)]
    + [(status, UNKNOWN) for status in (409, 412, 418, 423, 424, 428)],
)
def test_an_http_status_decides_whichever_library_reports_it(
    answered: Any, status: int, kind: ErrorKind
) -> None:
    assert classify(answered(status)) is kind


def test_an_endless_redirect_in_urllib_is_no_lost_connection() -> None:
    assert classify(urllib_error(302)) is UNKNOWN


def test_a_number_that_is_no_http_error_leaves_the_decision_to_the_class() -> None:
    error = named("pymongo.errors.ConnectionFailure")
    error.__dict__["code"] = 91
    assert classify(error) is TRANSIENT


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("ProvisionedThroughputExceededException", 400),  # DynamoDB throttles with a 400
        ("ThrottlingException", 400),
        ("Throttling", 400),
        ("ThrottledException", 400),
        ("RequestLimitExceeded", 400),
        ("TooManyRequestsException", 400),
        ("TransactionConflictException", 400),
        ("RequestThrottled", 403),
        ("OverLimit", 403),
        ("KmsThrottled", 400),
        ("KMS.ThrottlingException", 400),
        ("RequestTimeout", 400),
        ("SlowDown", 503),
        ("SlowDown", None),
    ],
)
def test_an_aws_throttling_code_is_transient_whatever_the_status(
    code: str, status: int | None
) -> None:
    assert classify(boto_error(code, status)) is TRANSIENT


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (boto_error("ConditionalCheckFailedException", 400), PERMANENT),
        (boto_error("AccessDeniedException", 400), PERMANENT),
        (boto_error("InternalError", 500), TRANSIENT),
        (boto_error("SomethingNew"), UNKNOWN),
    ],
)
def test_another_aws_code_leaves_the_decision_to_the_status(
    error: Exception, kind: ErrorKind
) -> None:
    assert classify(error) is kind


# --- by the class --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), TRANSIENT),
        (ConnectionResetError(), TRANSIENT),
        (BrokenPipeError(), TRANSIENT),
        (socket.gaierror(-2, "Name or service not known"), TRANSIENT),
        (OSError(errno.EHOSTUNREACH, "No route to host"), TRANSIENT),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), TRANSIENT),
        (urllib.error.URLError("unreachable"), TRANSIENT),
        (FileNotFoundError(errno.ENOENT, "No such file"), UNKNOWN),
        (PermissionError(errno.EACCES, "Permission denied"), UNKNOWN),
        (OSError(errno.ENOSPC, "No space left on device"), UNKNOWN),
        (ValueError(), UNKNOWN),
        (KeyError("code"), UNKNOWN),
        (SystemExit(1), UNKNOWN),
        (invalid(), PERMANENT),
        (requests.ConnectionError(), TRANSIENT),
        (requests.ReadTimeout(), TRANSIENT),
        (requests.exceptions.ChunkedEncodingError(), TRANSIENT),
        (requests.RequestException(), UNKNOWN),
        (requests.exceptions.InvalidURL(), UNKNOWN),
        (urllib3.exceptions.ProtocolError("broken"), TRANSIENT),
        (aiohttp.ServerDisconnectedError(), TRANSIENT),
        (aiohttp.ServerTimeoutError(), TRANSIENT),
        (aiohttp.ClientOSError(errno.ECONNRESET, "reset"), TRANSIENT),
        (aiohttp.ClientPayloadError(), TRANSIENT),
        (aiohttp.InvalidURL("nowhere"), UNKNOWN),
        (boto.EndpointConnectionError(endpoint_url="https://sqs"), TRANSIENT),
        (boto.ConnectTimeoutError(endpoint_url="https://sqs"), TRANSIENT),
        (boto.ReadTimeoutError(endpoint_url="https://sqs"), TRANSIENT),
        (boto.ConnectionClosedError(endpoint_url="https://sqs"), TRANSIENT),
        (boto.NoCredentialsError(), PERMANENT),
        (boto.ParamValidationError(report="missing"), PERMANENT),
        (boto.DataNotFoundError(data_path="x"), UNKNOWN),
    ],
    ids=repr,
)
def test_the_errors_of_python_and_of_installed_libraries_are_known(
    error: BaseException, kind: ErrorKind
) -> None:
    assert classify(error) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (named("httpx.ReadTimeout", type(named("httpx.TimeoutException"))), TRANSIENT),
        (named("httpx.ConnectError", type(named("httpx.NetworkError"))), TRANSIENT),
        (named("httpx.UnsupportedProtocol", type(named("httpx.TransportError"))), UNKNOWN),
        (named("psycopg.OperationalError"), TRANSIENT),
        (named("psycopg.errors.UniqueViolation", type(named("psycopg.IntegrityError"))), UNKNOWN),
        (
            named("psycopg.errors.InvalidPassword", type(named("psycopg.OperationalError"))),
            PERMANENT,
        ),
        (
            named("pymongo.errors.AutoReconnect", type(named("pymongo.errors.ConnectionFailure"))),
            TRANSIENT,
        ),
        (
            named(
                "redis.exceptions.BusyLoadingError", type(named("redis.exceptions.ConnectionError"))
            ),
            TRANSIENT,
        ),
        (
            named(
                "redis.exceptions.AuthenticationError",
                type(named("redis.exceptions.ConnectionError")),
            ),
            PERMANENT,
        ),
        (named("sqlalchemy.exc.OperationalError"), TRANSIENT),
        (named("shop.errors.ConnectionError"), UNKNOWN),
    ],
    ids=lambda value: type(value).__qualname__,
)
def test_errors_of_libraries_that_are_not_installed_are_known_by_name(
    error: Exception, kind: ErrorKind
) -> None:
    assert classify(error) is kind


def installed_names() -> list[str]:
    return [name for name in _KIND_BY_CLASS if importlib.util.find_spec(name.partition(".")[0])]


@pytest.mark.parametrize("name", installed_names())
def test_every_class_in_the_table_bears_that_name_in_its_library(name: str) -> None:
    module, _, qualname = name.rpartition(".")
    cls = getattr(importlib.import_module(module), qualname)
    assert f"{cls.__module__}.{cls.__qualname__}" == name


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.JobTimeout("send-email", 30), TRANSIENT),
        (errors.Throttled(), TRANSIENT),
        (errors.ServiceUnavailable(), TRANSIENT),
        (errors.AccessDenied(), PERMANENT),
        (errors.CredentialsMissing(), PERMANENT),
        (errors.QueueMissing("shop-jobs-high"), PERMANENT),
        (errors.RegionMissing(), PERMANENT),
        (errors.TransportError(), UNKNOWN),
        (errors.PayloadInvalid(), PERMANENT),
        (errors.ResultNotSerializable(), PERMANENT),
        (errors.ConfigurationError(), UNKNOWN),
    ],
    ids=repr,
)
def test_headgates_own_errors_are_judged_by_what_they_say(
    error: Exception, kind: ErrorKind
) -> None:
    assert classify(error) is kind


@pytest.mark.parametrize(("sender_fault", "kind"), [(False, TRANSIENT), (True, UNKNOWN)])
def test_a_refused_batch_is_transient_unless_sqs_blames_the_request(
    sender_fault: bool, kind: ErrorKind
) -> None:
    refusal = errors.Refusal(
        index=0, id="job-1", code="InternalError", message="", sender_fault=sender_fault
    )
    assert classify(errors.PartlySubmitted([refusal], submitted=10)) is kind


# --- by its cause, or its members ----------------------------------------------------------------


def wrapping(*links: BaseException) -> BaseException:
    for outer, inner in pairwise(links):
        outer.__cause__ = inner
    return links[0]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (wrapping(ValueError(), requests_error(503)), TRANSIENT),
        (wrapping(ValueError(), KeyError(), requests_error(404)), PERMANENT),
        (wrapping(ValueError(), KeyError()), UNKNOWN),
        # An error with an answer of its own is not overruled by its cause.
        (wrapping(requests_error(404), TimeoutError()), PERMANENT),
        (wrapping(requests_error(503), invalid()), TRANSIENT),
    ],
)
def test_an_error_that_says_nothing_is_judged_by_its_cause(
    error: BaseException, kind: ErrorKind
) -> None:
    assert classify(error) is kind


def test_an_error_is_not_classified_by_the_one_it_was_handling() -> None:
    error = ValueError("a bug in the error handler")
    error.__context__ = TimeoutError()
    assert classify(error) is UNKNOWN


def test_a_circle_of_causes_ends() -> None:
    one, other = ValueError(), KeyError()
    wrapping(one, other, one)
    assert classify(one) is UNKNOWN


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ([TimeoutError(), ConnectionError()], TRANSIENT),
        ([TimeoutError(), requests_error(404)], PERMANENT),
        ([TimeoutError(), ValueError()], UNKNOWN),
        ([ExceptionGroup("inner", [requests_error(404)]), ValueError()], PERMANENT),
    ],
)
def test_an_exception_group_is_permanent_if_any_member_is(
    members: list[Exception], kind: ErrorKind
) -> None:
    assert classify(ExceptionGroup("tasks", members)) is kind


# --- any error -----------------------------------------------------------------------------------


class Hostile(Exception):
    """Raises for every attribute that it doesn't have, as httpx's ``.request`` does."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"{name} is not set")


@pytest.mark.parametrize(
    "error",
    [
        Hostile(),
        carrying(response=None),
        carrying(response={}),
        carrying(response={"Error": None, "ResponseMetadata": []}),
        carrying(response={"Error": {"Code": ["Throttling"]}}),
        carrying(response=SimpleNamespace(status_code="503")),
        carrying(status="failed"),
        carrying(status=True),
        carrying(code="gkpj"),  # SQLAlchemy: the key of a page of its manual
        carrying(code=lambda: 14),  # gRPC: a method
        carrying(code=251),  # MongoDB: a code of its own
        carrying(code=11000),
        carrying(errno=errno.EHOSTUNREACH),  # an errno on something other than an OSError
    ],
    ids=repr,
)
def test_an_error_that_carries_something_else_under_a_known_name_is_unknown(
    error: Exception,
) -> None:
    assert classify(error) is UNKNOWN


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["Error", "Code", "status", "headers", "items"]), inner)
    ),
)
ATTRIBUTES = ("response", "status", "status_code", "http_status", "code", "errno", "headers")


@given(st.dictionaries(st.sampled_from(ATTRIBUTES), anything))
def test_classifying_never_raises(attributes: dict[str, object]) -> None:
    assert classify(carrying(**attributes)) in ErrorKind
