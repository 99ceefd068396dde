"""Signals by which a handler decides what becomes of its job."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headgate import Discard, DoNotRetry, RetryLater
from headgate.errors import SettingsInvalid


def test_the_signals_carry_their_reason() -> None:
    assert str(DoNotRetry("card stolen")) == DoNotRetry("card stolen").reason == "card stolen"
    assert Discard("stale").reason == "stale"
    later = RetryLater(after=timedelta(minutes=1))
    assert (later.after, later.reason) == (timedelta(minutes=1), "")


@pytest.mark.parametrize("after", [0.5, timedelta(0)])
def test_a_job_is_given_back_for_a_second_at_least(after: timedelta | float) -> None:
    with pytest.raises(SettingsInvalid, match=r"RetryLater\(after=...\) must be at least 1 s"):
        RetryLater(after)
