"""Signatures, compared with botocore's own signer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from unittest.mock import patch

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.aws.lean.sigv4 import Signer

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
HEADERS = {
    "content-type": "application/x-amz-json-1.0",
    "host": "sqs.us-east-1.amazonaws.com",
    "x-amz-target": "AmazonSQS.SendMessageBatch",
    "x-amzn-query-mode": "true",
}
UNSIGNED = {"user-agent": "headgate", "accept-encoding": "identity"}


class Keys(NamedTuple):
    access_key: str
    secret_key: str
    token: str | None


CREDENTIALS = Keys("AKID", "secret", "token")

printable = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)
credentials = st.builds(Keys, printable, printable, st.one_of(st.none(), st.just(""), printable))
times = st.datetimes(
    min_value=datetime(2000, 1, 1),  # noqa: DTZ001  given its zone beside it
    max_value=datetime(2099, 1, 1),  # noqa: DTZ001 - likewise
    timezones=st.just(UTC),
)
header_values = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)


def headers_in(head: bytes) -> dict[str, str]:
    """Return a head's headers, but those that were not to be signed."""
    first, *lines = head.decode().split("\r\n")
    assert first == "POST / HTTP/1.1"
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    assert {name: headers.pop(name) for name in UNSIGNED} == UNSIGNED
    return headers


def botocores(
    headers: dict[str, str], body: bytes, by: Keys, at: datetime, region: str
) -> dict[str, str]:
    request = AWSRequest("POST", f"https://{headers['host']}/", headers=headers, data=body)
    with patch("botocore.auth.get_current_datetime", return_value=at):
        frozen: Any = by
        SigV4Auth(frozen, "sqs", region).add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


@given(
    by=credentials,
    body=st.binary(max_size=2000),
    at=times,
    region=st.sampled_from(["us-east-1", "cn-north-1", "us-gov-west-1"]),
    value=header_values,
)
def test_any_request_is_signed_as_botocore_signs_it(
    by: Keys, body: bytes, at: datetime, region: str, value: str
) -> None:
    headers = HEADERS | {"x-amz-value": value}
    signer = Signer(headers, UNSIGNED, region=region, service="sqs")
    for each in (body, b"{}", body):  # the same second
        signed = headers_in(signer.head(each, credentials=by, at=at))
        assert signed == botocores(headers, each, by, at, region)


@given(st.lists(st.tuples(credentials, times), min_size=2, max_size=5))
def test_a_reused_signer_signs_by_each_requests_day_and_keys(
    requests: list[tuple[Keys, datetime]],
) -> None:
    signer = Signer(HEADERS, UNSIGNED, region="us-east-1", service="sqs")
    for by, at in requests:
        signed = headers_in(signer.head(b"{}", credentials=by, at=at))
        assert signed == botocores(HEADERS, b"{}", by, at, "us-east-1")


@given(
    st.lists(
        st.tuples(
            st.sampled_from([CREDENTIALS, CREDENTIALS._replace(token=None)]),
            st.integers(0, 2_000_000),
        ),
        min_size=2,
        max_size=6,
    )
)
def test_requests_within_a_second_are_signed_by_their_own_keys_and_second(
    requests: list[tuple[Keys, int]],
) -> None:
    signer = Signer(HEADERS, UNSIGNED, region="us-east-1", service="sqs")
    for by, microseconds in requests:
        at = NOON + timedelta(microseconds=microseconds)
        signed = headers_in(signer.head(b"{}", credentials=by, at=at))
        assert signed == botocores(HEADERS, b"{}", by, at, "us-east-1")


def test_the_key_of_a_day_is_derived_once() -> None:
    signer = Signer(HEADERS, UNSIGNED, region="us-east-1", service="sqs")
    with patch("headgate.jobs.aws.lean.sigv4._derived", return_value=b"key") as derived:
        for hours in (0, 1, 11, 12):
            at = NOON + timedelta(hours=hours)
            signer.head(b"{}", credentials=CREDENTIALS, at=at)
    assert derived.call_count == 2  # the last one is for the next day


def test_a_signer_shows_no_secret() -> None:
    signer = Signer(HEADERS, UNSIGNED, region="us-east-1", service="sqs")
    signer.head(b"{}", credentials=CREDENTIALS, at=NOON)
    assert CREDENTIALS.secret_key not in repr(signer) + repr(signer._last) + repr(signer._stamp)
