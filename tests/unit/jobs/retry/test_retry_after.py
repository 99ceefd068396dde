from __future__ import annotations

import email.utils
import io
import math
import random
import time
import urllib.error
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import Message
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import requests
import scipy  # type: ignore[import-untyped]  # it has no types; scipy.stats loads on first use
import yarl
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.retry.backoff import Backoff, job_rng
from headgate.jobs.retry.classification import LONGEST_WAIT_S, retry_after_s
from headgate.jobs.retry.policy import Retry, retry_delay_s

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def asking(retry_after: object) -> Exception:
    error = Exception("busy")
    error.__dict__["retry_after"] = retry_after
    return error


def answered(headers: object) -> Exception:
    error = Exception("busy")
    error.__dict__["response"] = SimpleNamespace(headers=headers)
    return error


# --- sources of the delay ------------------------------------------------------------------------


def requests_error(value: str) -> Exception:
    response = requests.Response()
    response.status_code = 503
    response.headers["Retry-After"] = value
    error: Exception = requests.HTTPError("busy", response=response)
    return error


def aiohttp_error(value: str) -> Exception:
    url = yarl.URL("https://example.com")
    request = aiohttp.RequestInfo(url, "GET", CIMultiDictProxy(CIMultiDict()), url)
    headers = CIMultiDict({"retry-AFTER": value})
    return aiohttp.ClientResponseError(request, (), status=503, headers=headers)


def urllib_error(value: str) -> Exception:
    headers = Message()
    headers["Retry-After"] = value
    return urllib.error.HTTPError("https://example.com", 503, "", headers, io.BytesIO())


def boto_error(value: str) -> Exception:
    response: Any = {"ResponseMetadata": {"HTTPHeaders": {"retry-after": value}}, "Error": {}}
    return ClientError(response, "SomeOperation")


@pytest.mark.parametrize(
    "make",
    [
        requests_error,
        aiohttp_error,
        urllib_error,
        boto_error,
        asking,
        lambda value: answered({"Retry-After": value}),
        lambda value: answered({"X-Other": "1", "retry-after": value}),
    ],
    ids=["requests", "aiohttp", "urllib", "botocore", "attribute", "title case", "lower case"],
)
@pytest.mark.parametrize("value", ["120", "Fri, 20 Nov 2026 12:02:00 GMT"])
def test_the_wait_is_read_from_whichever_library_reports_it(make: Any, value: str) -> None:
    assert retry_after_s(make(value), NOW) == 120


def test_the_errors_own_attribute_comes_before_its_headers() -> None:
    error = answered({"Retry-After": "120"})
    error.__dict__["retry_after"] = 5
    assert retry_after_s(error, NOW) == 5


def test_a_cause_is_asked_when_the_error_itself_says_nothing() -> None:
    error = ValueError("gateway busy")
    error.__cause__ = requests_error("120")
    assert retry_after_s(error, NOW) == 120


def test_of_a_group_the_member_that_asks_for_the_most_is_heard() -> None:
    group = ExceptionGroup("tasks", [asking(5), ValueError(), asking(60), asking(30)])
    assert retry_after_s(group, NOW) == 60


# --- accepted values -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (30, 30),
        (1.5, 1.5),
        (timedelta(minutes=2), 120),
        ("30", 30),
        (" 30 ", 30),
        ("1.5", 1.5),
        (0, 0),
        (-30, 0),
        ("-30", 0),
        (-(10**400), 0),
        (timedelta(seconds=-1), 0),
        # RFC 9110, section 5.6.7: one format to send, two more to accept
        ("Fri, 20 Nov 2026 12:00:30 GMT", 30),
        ("Friday, 20-Nov-26 12:00:30 GMT", 30),
        ("Fri Nov 20 12:00:30 2026", 30),
        ("Fri, 20 Nov 2026 14:00:30 +0200", 30),
        ("Fri, 20 Nov 2026 11:59:30 GMT", 0),
        (LONGEST_WAIT_S, LONGEST_WAIT_S),
    ],
)
def test_seconds_and_dates_are_understood_and_the_past_is_now(
    value: object, seconds: float
) -> None:
    assert retry_after_s(asking(value), NOW) == seconds


@pytest.fixture
def _in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_in_tokyo")
def test_a_date_without_a_zone_is_utc_wherever_the_worker_runs() -> None:
    assert retry_after_s(asking("Fri Nov 20 12:00:30 2026"), NOW) == 30


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "",
        "soon",
        "3 minutes",
        "1e3",
        "0\x1f",  # white space to str.strip(), but not to float()
        "١٢",  # digits, but not HTTP's
        "nan",
        float("nan"),
        float("inf"),
        10**400,
        "9" * 400,
        "99999999999",
        LONGEST_WAIT_S + 1,
        "Fri, 20 Nov 9026 12:00:30 GMT",
        "Fri, 99 Nov 2026 12:00:30 GMT",
        timedelta.max,
        b"30",
        [30],
        lambda: 30,
    ],
)
def test_what_is_malformed_or_beyond_a_year_was_not_said(value: object) -> None:
    assert retry_after_s(asking(value), NOW) is None


@pytest.mark.parametrize(
    "headers", [None, {}, [], "Retry-After: 5", {1: "5"}, {"Retry-After": None}, object()]
)
def test_headers_of_any_other_shape_say_nothing(headers: object) -> None:
    assert retry_after_s(answered(headers), NOW) is None


@given(st.integers(1, int(LONGEST_WAIT_S)))
def test_an_http_date_asks_for_the_seconds_until_then(seconds: int) -> None:
    date = email.utils.format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    assert retry_after_s(asking(date), NOW) == seconds


datelike = st.from_regex(r"\w{0,4},? ?\d{0,5}[ -]\w{0,4}[ -]\d{0,6} [\d:]{0,12} ?[+-]?\w{0,9}")
said = st.one_of(
    st.text(), datelike, st.integers(), st.floats(), st.timedeltas(), st.binary(), st.booleans()
)


@given(said)
def test_reading_it_never_raises_and_never_yields_more_than_a_year(value: object) -> None:
    for error in (asking(value), answered({"Retry-After": value})):
        wait = retry_after_s(error, NOW)
        assert wait is None or 0 <= wait <= LONGEST_WAIT_S


# --- the delay that follows ----------------------------------------------------------------------

POLICY = Retry(backoff=Backoff.fixed(7))


def delay_s(policy: Retry, error: Exception, attempt: int, rng: random.Random) -> int:
    return retry_delay_s(policy, attempt, rng, asked_s=retry_after_s(error, NOW))


def test_what_the_error_asks_for_wins_over_the_backoff() -> None:
    assert 60 <= delay_s(POLICY, asking(60), 1, job_rng("any")) <= 72
    assert delay_s(POLICY, asking(1), 1, job_rng("any")) == 2, "rounded up"


@pytest.mark.parametrize("error", [ValueError(), asking("soon"), asking(0), asking(-5)])
def test_without_a_wait_to_honour_the_backoff_decides(error: Exception) -> None:
    assert delay_s(POLICY, error, 1, job_rng("any")) == 7


def test_equal_retry_after_values_spread_evenly_over_twenty_percent() -> None:
    names = random.Random("names")  # noqa: S311  a sample, no secret
    rngs = [job_rng(f"job-{names.getrandbits(64):x}") for _ in range(4000)]
    delays = [delay_s(POLICY, asking(60_000), 2, rng) for rng in rngs]
    assert scipy.stats.kstest(delays, scipy.stats.uniform(60_000, 12_000).cdf).pvalue > 0.01


@given(st.floats(0.001, LONGEST_WAIT_S), st.integers(1, 50), st.text())
def test_a_job_never_comes_back_before_it_was_asked_to(
    wait: float, attempt: int, job_id: str
) -> None:
    delay = delay_s(POLICY, asking(wait), attempt, job_rng(job_id))
    assert wait <= delay <= math.ceil(wait * 1.2 * (1 + 1e-12))


@given(st.integers(1, 50), st.text())
def test_the_number_drawn_is_that_of_the_attempt_whichever_sets_the_delay(
    attempt: int, job_id: str
) -> None:
    rng = job_rng(job_id)
    share = [rng.random() for _ in range(attempt)][-1]
    policy = Retry(backoff=Backoff.fixed(10_000, jitter="full"))
    asked = delay_s(policy, asking(100_000), attempt, job_rng(job_id))
    assert asked == pytest.approx(100_000 + 20_000 * share, abs=1)
    backed_off = delay_s(policy, ValueError(), attempt, job_rng(job_id))
    assert backed_off == pytest.approx(10_000 * share, abs=1)


def test_the_depth_of_the_queue_reaches_an_adaptive_backoff() -> None:
    policy = Retry(backoff=Backoff.adaptive(jitter=None))
    assert retry_delay_s(policy, 2, job_rng("any"), backlog=1000) == 4


def test_a_broken_custom_backoff_is_reported_unless_the_error_sets_the_delay() -> None:
    policy = Retry(backoff=Backoff.custom(lambda _attempt: -1))
    assert delay_s(policy, asking(60), 1, job_rng("any")) >= 60
    with pytest.raises(SettingsInvalid):
        delay_s(policy, ValueError(), 1, job_rng("any"))
