from __future__ import annotations

from typing import Any

import pytest

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.retry.backoff import Backoff
from headgate.jobs.retry.classification import ErrorKind
from headgate.jobs.retry.policy import DEFAULT_RETRY, Retry


class PaymentError(Exception):
    pass


class CardDeclined(PaymentError):
    pass


def test_by_default_a_job_runs_three_times_with_full_jitter_up_to_a_minute() -> None:
    assert Retry() == DEFAULT_RETRY
    assert DEFAULT_RETRY.max_attempts == 3
    assert DEFAULT_RETRY.backoff == Backoff.exponential(base=1, factor=2, cap=60, jitter="full")


@pytest.mark.parametrize(
    ("policy", "error", "kind", "retried"),
    [
        # Classification decides where the policy names nothing, ...
        (Retry(), TimeoutError(), ErrorKind.TRANSIENT, True),
        (Retry(), PaymentError(), ErrorKind.UNKNOWN, True),
        (Retry(unknown="dead-letter"), PaymentError(), ErrorKind.UNKNOWN, False),
        (Retry(unknown="dead-letter"), TimeoutError(), ErrorKind.TRANSIENT, True),
        # ... retry_on beats it, ...
        (
            Retry(unknown="dead-letter", retry_on=(PaymentError,)),
            CardDeclined(),
            ErrorKind.TRANSIENT,
            True,
        ),
        # ... and never_on beats both, for subclasses too.
        (Retry(never_on=(TimeoutError,)), TimeoutError(), ErrorKind.PERMANENT, False),
        (Retry(never_on=(PaymentError,)), CardDeclined(), ErrorKind.PERMANENT, False),
        (
            Retry(retry_on=(PaymentError,), never_on=(CardDeclined,)),
            CardDeclined(),
            ErrorKind.PERMANENT,
            False,
        ),
        (
            Retry(retry_on=(PaymentError,), never_on=(CardDeclined,)),
            PaymentError(),
            ErrorKind.TRANSIENT,
            True,
        ),
    ],
)
def test_never_on_beats_retry_on_which_beats_classification(
    policy: Retry, error: Exception, kind: ErrorKind, retried: bool
) -> None:
    assert policy.kind_of(error) is kind
    assert policy.should_retry(error) is retried


def test_a_permanent_error_is_retried_where_retry_on_names_it() -> None:
    class NotYetThere(Exception):
        status = 404

    assert not Retry().should_retry(NotYetThere())
    assert Retry(retry_on=(NotYetThere,)).should_retry(NotYetThere())


def test_one_member_of_a_group_that_never_on_names_ends_the_retries() -> None:
    policy = Retry(retry_on=(Exception,), never_on=(CardDeclined,))
    group = ExceptionGroup("tasks", [TimeoutError(), ExceptionGroup("inner", [CardDeclined()])])
    assert not policy.should_retry(group)
    assert policy.should_retry(ExceptionGroup("tasks", [TimeoutError(), PaymentError()]))


def test_a_wrapped_error_is_classified_before_its_cause() -> None:
    error = PaymentError()
    error.__cause__ = TimeoutError()
    assert Retry(unknown="dead-letter").should_retry(error)
    assert not Retry(never_on=(PaymentError,)).should_retry(error)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"max_attempts": 0}, "max_attempts must be a whole number between 1 and 1,000, got 0"),
        (
            {"max_attempts": 1001},
            "max_attempts must be a whole number between 1 and 1,000, got 1001",
        ),
        ({"max_attempts": 2.0}, "max_attempts must be a whole number .* got 2.0"),
        ({"max_attempts": True}, "max_attempts must be a whole number .* got True"),
        ({"backoff": 30}, r"backoff must be a Backoff, such as Backoff.fixed\(30\), got 30"),
        ({"retry_on": TimeoutError}, r"retry_on must be a tuple .* such as \(TimeoutError,\)"),
        ({"never_on": [TimeoutError]}, "never_on must be a tuple of exception classes"),
        ({"never_on": ("TimeoutError",)}, "never_on must hold exception classes"),
        ({"retry_on": (int,)}, "retry_on must hold exception classes, got <class 'int'>"),
        (
            {"retry_on": (CardDeclined,), "never_on": (CardDeclined,)},
            "CardDeclined is in retry_on, but never_on wins",
        ),
        (
            {"retry_on": (CardDeclined,), "never_on": (PaymentError,)},
            "CardDeclined is in retry_on, but never_on wins",
        ),
        ({"unknown": "deadletter"}, "unknown must be one of .* did you mean 'dead-letter'"),
    ],
)
def test_a_policy_that_could_not_be_followed_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsInvalid, match=says):
        Retry(**fields)


def test_policies_are_values() -> None:
    policy = Retry(max_attempts=5, backoff=Backoff.fixed(10), retry_on=(PaymentError,))
    same = Retry(max_attempts=5, backoff=Backoff.fixed(10), retry_on=(PaymentError,))
    assert policy == same
    assert hash(policy) == hash(same)
