"""Limits as values: their validation and their declaration."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Breaker, Concurrency, RateLimit, RetryBudget
from headgate.jobs.core.limits import Limits
from headgate.jobs.errors import ConfigurationError, SettingsInvalid


class Note(BaseModel):
    text: str = ""


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RateLimit(0), r"RateLimit\(limit=...\) must be at least 1, got 0"),
        (lambda: RateLimit(True), "must be at least 1, got True"),
        (lambda: RateLimit(1, per="1 s"), r"RateLimit\(per=...\) must be a timedelta or .*'1 s'"),  # type: ignore[arg-type]  # what a user may write
        (lambda: RateLimit(1, per=timedelta(0)), r"per=...\) must be positive"),
        (lambda: RateLimit(1, scope="world"), "'worker' or 'fleet', got 'world'"),  # type: ignore[arg-type]  # what a user may write
        (lambda: RateLimit(1, per=timedelta(hours=2), scope="fleet"), "at most 1:00:00"),
        (lambda: RateLimit(1, key="org"), r"RateLimit\(key=...\) must be 'tenant' or a function"),  # type: ignore[arg-type]  # what a user may write
        (lambda: RateLimit(1, cost=0), r"RateLimit\(cost=...\) must be at least 1, got 0"),
        (lambda: RateLimit(1, cost="2"), "must be at least 1, got '2'"),  # type: ignore[arg-type]  # what a user may write
        (lambda: RateLimit(5, cost=6), r"cost=...\) of 6 is more than its limit of 5"),
        (lambda: Concurrency(-1), r"Concurrency\(limit=...\) must be at least 1"),
        (lambda: Concurrency(1, key="org"), "'tenant' or a function"),  # type: ignore[arg-type]  # what a user may write
        (lambda: RetryBudget(1, on_exhausted="drop"), "'wait' or 'dead-letter'"),  # type: ignore[arg-type]  # what a user may write
        (lambda: RetryBudget(0), r"RetryBudget\(limit=...\)"),
        (lambda: Breaker(0), r"failure_ratio=...\) must lie in \(0, 1\]"),
        (lambda: Breaker(1.1), "failure_ratio"),
        (lambda: Breaker(min_runs=0), "min_runs"),
        (lambda: Breaker(probes=0), "probes"),
        (lambda: Breaker(key="endpoint"), r"Breaker\(key=...\) must be 'tenant' or a function"),  # type: ignore[arg-type]
        (lambda: Breaker(window=timedelta(0)), "window"),
        (lambda: Breaker(open_for=timedelta(seconds=-1)), "open_for"),
    ],
)
def test_a_value_that_is_none_is_refused_and_named(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(SettingsInvalid, match=said):
        make()


@pytest.mark.parametrize("declare", ["app", "queue", "type"])
def test_limits_are_declared_on_app_queue_and_type(declare: str) -> None:
    limits: dict[str, Any] = {
        "rate_limit": RateLimit(20),
        "concurrency": Concurrency(5, key="tenant"),
        "retry_budget": RetryBudget(100),
        "breaker": Breaker(),
    }
    app = App("shop", **(limits if declare == "app" else {}))
    queue = app.queue("mail", **(limits if declare == "queue" else {}))
    job = queue.define("send", Note, **(limits if declare == "type" else {}))

    owner: Any = {"app": app, "queue": queue, "type": job}[declare]
    assert owner.limits == Limits(**limits)
    assert not owner.limits.of_fleet


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rate_limit": 20}, "rate_limit must be a RateLimit, got 20"),
        ({"breaker": RateLimit(1)}, "breaker must be a Breaker"),
        ({"rate_limits": RateLimit(1)}, "no option 'rate_limits': did you mean 'rate_limit'"),
    ],
)
def test_an_invalid_limit_is_refused_wherever_it_is_declared(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        App("shop", **options)
    with pytest.raises(ConfigurationError, match=said):
        App("shop").queue("mail", **options)
    with pytest.raises(ConfigurationError, match=said):
        App("shop").define("send", Note, **options)


@pytest.mark.parametrize(
    "limits",
    [
        Limits(rate_limit=RateLimit(1, scope="fleet")),
        Limits(concurrency=Concurrency(1, scope="fleet")),
        Limits(retry_budget=RetryBudget(1, scope="fleet")),
    ],
)
def test_a_limit_of_the_fleet_needs_the_table(limits: Limits) -> None:
    assert limits.of_fleet


@pytest.mark.parametrize(("answer", "cost"), [(0, 0), (1, 1), (2.1, 3), (10**9, 10**9)])
def test_a_cost_is_a_whole_number_of_tokens_rounded_up(answer: float, cost: int) -> None:
    assert RateLimit(5, cost=lambda _note: answer).cost_of(Note()) == cost


@pytest.mark.parametrize("answer", [-1, float("nan"), float("inf"), "3", None, True])
def test_a_cost_that_is_none_is_not_made_into_one(answer: Any) -> None:
    with pytest.raises(ValueError, match="not a cost"):
        RateLimit(5, cost=lambda _note: answer).cost_of(Note())
