from __future__ import annotations

import socket
import ssl
from typing import Any

import aiohttp
import botocore.exceptions
import pytest
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError
from botocore.parsers import ResponseParserError
from botocore.retries import standard
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.aws.connections.faults import FOREIGN, fault
from headgate.jobs.aws.lean.answer import HttpAnswer
from headgate.jobs.errors import (
    AccessDenied,
    CredentialsMissing,
    QueueMissing,
    RegionMissing,
    ServiceUnavailable,
    Throttled,
    TransportError,
)

# All values that the texts of botocore's errors need.
TEXTS = dict.fromkeys(
    (
        "cred_var",
        "endpoint_url",
        "error",
        "error_msg",
        "name",
        "profile",
        "provider",
        "proxy_url",
    ),
    "text",
)

BOTOCORE_ERRORS = {
    name: member
    for name, member in vars(botocore.exceptions).items()
    if isinstance(member, type) and issubclass(member, BotoCoreError)
}


def _made(kind: type[BotoCoreError]) -> BotoCoreError:
    return kind(**TEXTS)


def _fault(error: Exception) -> TransportError:
    return fault(error, action="sqs:SendMessage", target="shop-jobs-high")


def _refusal(code: str, *, status: int = 400, message: str = "said AWS") -> ClientError:
    return ClientError(
        {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},  # type: ignore[typeddict-item]  # no more of it is read
        },
        "SendMessageBatch",
    )


def _named(*words: str) -> list[str]:
    """Return botocore's errors whose names contain these words."""
    return [name for name in BOTOCORE_ERRORS if any(word in name for word in words)]


def _codes(checker: str, table: str) -> list[str]:
    """Return one of botocore's tables, which its stubs leave out."""
    return sorted(getattr(getattr(standard, checker), table))


@pytest.mark.parametrize(
    "name", _named("Connect", "Timeout", "HTTPClient", "SSLError", "ResponseStreaming")
)
def test_every_botocore_connection_error_is_service_unavailable(
    name: str,
) -> None:
    known = _fault(_made(BOTOCORE_ERRORS[name]))
    assert type(known) is ServiceUnavailable
    assert known.transient


@pytest.mark.parametrize(
    "name", _named("Credential", "Token", "SSO", "Login", "MFA", "ProfileNotFound", "Metadata")
)
def test_every_credentials_error_of_botocore_says_how_to_give_credentials(name: str) -> None:
    known = _fault(_made(BOTOCORE_ERRORS[name]))
    assert isinstance(known, CredentialsMissing)
    assert "AWS_PROFILE" in str(known)
    assert not known.transient


def test_a_missing_region_says_how_to_give_one() -> None:
    known = _fault(_made(botocore.exceptions.NoRegionError))
    assert type(known) is RegionMissing
    assert "AWS_REGION" in str(known)


@pytest.mark.parametrize("name", sorted(BOTOCORE_ERRORS))
def test_every_error_of_botocore_is_caught_and_becomes_a_transport_error(name: str) -> None:
    kind = BOTOCORE_ERRORS[name]
    error = kind.__new__(kind)
    assert isinstance(error, FOREIGN)
    assert isinstance(_fault(error), TransportError)


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError(),
        ssl.SSLError(),
        socket.gaierror(),
        aiohttp.ServerDisconnectedError(),
        aiohttp.ClientPayloadError(),
        ResponseParserError("<html>"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_the_network_means_that_the_service_is_unavailable(error: Exception) -> None:
    assert type(_fault(error)) is ServiceUnavailable


@pytest.mark.parametrize("code", ["SignatureDoesNotMatch", "InvalidSignatureException", "Else"])
def test_an_error_says_nothing_of_the_signed_request_that_aws_quotes(code: str) -> None:
    message = (
        "The request signature we calculated does not match the signature you provided.\n\n"
        "The Canonical String for this request should have been\n'POST\n/\n\n"
        "host:sqs.eu-west-1.amazonaws.com\nx-amz-security-token:IQoJb3JpZ2luX2VjE\n'\n"
    )
    text = str(_fault(_refusal(code, status=403, message=message)))
    assert "does not match the signature you provided." in text
    assert "IQoJb3JpZ2luX2VjE" not in text


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("AWS.SimpleQueueService.NonExistentQueue", QueueMissing),
        ("QueueDoesNotExist", QueueMissing),
        ("com.amazonaws.sqs#QueueDoesNotExist", QueueMissing),
        ("ExpiredToken", CredentialsMissing),
        ("InvalidClientTokenId", CredentialsMissing),
        ("UnrecognizedClientException", CredentialsMissing),
        ("SignatureDoesNotMatch", CredentialsMissing),
        ("AccessDenied", AccessDenied),
        ("AccessDeniedException", AccessDenied),
        ("KmsAccessDenied", AccessDenied),
        ("KMS.AccessDeniedException", AccessDenied),
        ("RequestThrottled", Throttled),
        ("OverLimit", Throttled),
        ("AWS.SimpleQueueService.OverLimit", Throttled),
        ("KmsThrottled", Throttled),
        ("KMS.ThrottlingException", Throttled),
        ("InternalError", ServiceUnavailable),
        ("ServiceUnavailable", ServiceUnavailable),
        ("RequestTimeout", ServiceUnavailable),
        ("ConditionalRequestConflict", ServiceUnavailable),
        ("InvalidMessageContents", TransportError),
    ],
)
def test_a_code_of_awss_decides_what_kind_of_error_it_is(
    code: str, kind: type[TransportError]
) -> None:
    assert type(_fault(_refusal(code))) is kind


@pytest.mark.parametrize("code", _codes("ThrottledRetryableChecker", "_THROTTLED_ERROR_CODES"))
def test_what_botocore_takes_for_throttling_is_throttling(code: str) -> None:
    assert type(_fault(_refusal(code))) is Throttled


@pytest.mark.parametrize("code", _codes("TransientRetryableChecker", "_TRANSIENT_ERROR_CODES"))
def test_what_botocore_takes_for_transient_is_transient(code: str) -> None:
    assert _fault(_refusal(code)).transient


@pytest.mark.parametrize(
    ("status", "kind"), [(429, Throttled), (500, ServiceUnavailable), (503, ServiceUnavailable)]
)
def test_a_code_that_nobody_knows_is_told_by_its_status(
    status: int, kind: type[TransportError]
) -> None:
    assert type(_fault(_refusal("BrandNew", status=status))) is kind


def test_a_redirect_is_told_as_one_without_what_it_asks_for() -> None:
    answer = HttpAnswer(302, {"location": "https://login.example/in?state=secret"}, b"<html>")
    told = _fault(answer.refusal("SendMessageBatch"))
    assert type(told) is TransportError
    assert not told.transient
    assert "got a redirect to 'https://login.example/in', which" in str(told)


def test_a_request_that_a_proxy_waited_for_too_long_is_tried_again() -> None:
    answer = HttpAnswer(408, {}, b"<html>Request Timeout</html>")
    assert type(_fault(answer.refusal("SendMessageBatch"))) is ServiceUnavailable


@given(st.text(), st.integers(100, 599), st.text())
def test_any_refusal_of_awss_becomes_a_transport_error(
    code: str, status: int, message: str
) -> None:
    assert isinstance(_fault(_refusal(code, status=status, message=message)), TransportError)


@pytest.mark.parametrize("response", [{}, {"Error": {}}])
def test_a_refusal_that_says_nothing_becomes_a_transport_error(response: Any) -> None:
    assert type(_fault(ClientError(response, "SendMessageBatch"))) is TransportError


@pytest.mark.parametrize(
    "date",
    ["", "noon", f"Mon, 01 Jan {10**20} 00:00:00 GMT", f"Mon, 01 Jan 2026 00:00:00 +{10**20}"],
)
def test_a_refused_signature_is_a_transport_error_whatever_the_date(
    date: str,
) -> None:
    refusal = _refusal("SignatureDoesNotMatch", status=403)
    refusal.response["ResponseMetadata"]["HTTPHeaders"] = {"date": date}
    assert type(_fault(refusal)) is CredentialsMissing


def test_a_missing_queue_is_named() -> None:
    known = _fault(_refusal("QueueDoesNotExist"))
    assert isinstance(known, QueueMissing)
    assert known.queue == "shop-jobs-high"


def test_denied_access_names_the_permission_the_queue_and_what_aws_says() -> None:
    text = str(_fault(_refusal("AccessDenied", message="no such grant")))
    assert "sqs:SendMessage" in text
    assert "shop-jobs-high" in text
    assert "no such grant" in text


def test_an_unknown_refusal_keeps_the_code_and_the_message_of_awss() -> None:
    text = str(_fault(_refusal("BrandNew", message="why")))
    assert "BrandNew: why" in text


def test_a_rejected_parameter_is_not_quoted_since_it_may_be_a_payload() -> None:
    error = botocore.exceptions.ParamValidationError(report="value: secret@example.com")
    assert "secret" not in str(_fault(error))


@pytest.mark.parametrize(
    ("url", "is_local"),
    [
        ("http://127.0.0.1:4566/", True),
        ("http://localhost:4566", True),
        ("https://[::1]:4566/", True),
        ("https://sqs.eu-central-1.amazonaws.com/", False),
        ("http://127.0.0.1.example/", False),
    ],
)
def test_a_local_aws_that_is_not_there_is_asked_for(url: str, is_local: bool) -> None:
    told = str(_fault(EndpointConnectionError(endpoint_url=url)))
    assert told.endswith("is `headgate dev` running?") is is_local
