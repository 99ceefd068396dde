"""An app with a bit of everything, and its template.

Synthesis takes seconds, so it runs once a session.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from headgate import App, Priority, Retry, Schedule, cron
from headgate.jobs.deployment.deployment import Deployment

if TYPE_CHECKING:
    from tests.infra.complete import Complete

# Read when importing aws_cdk starts jsii's Node process: Node 20 still works.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

NO_BUNDLING: dict[str, Any] = {"aws:cdk:bundling-stacks": []}
"""CDK's own switch to build no function's code, so that nothing is installed."""


ELSEWHERE = Deployment(workers=())
"""A deployment without workers, so without an image to build and a network."""


class Params(BaseModel):
    """A payload whose fields all have defaults."""

    days: int = 1


@pytest.fixture(autouse=True)
def builds_no_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a synthesis that would install a function's dependencies, which takes ten seconds."""
    from headgate.infra.functions import bundling

    def refuse(*_arguments: object, **_options: object) -> bool:
        raise AssertionError("this synthesis builds a function's code: pass NO_BUNDLING")

    monkeypatch.setattr(bundling._LocalBundling, "try_bundle", refuse)


@pytest.fixture(scope="session")
def app() -> App:
    app = App("shop", priorities="all", stage="test")
    app.define("send-email", Params, priority=Priority.HIGH)
    app.define(
        "daily-report", Params, schedule=cron("0 8 * * ? *", timezone="Europe/Berlin"), schema=2
    )
    payments = app.queue(
        "payments", priorities=[Priority.CRITICAL, Priority.LOW], retry=Retry(max_attempts=7)
    )
    payments.define(
        "sync-balances",
        Params,
        priority=Priority.LOW,
        schedule=Schedule.rate(timedelta(minutes=15), flexible_window=timedelta(minutes=5)),
    )
    return app


@pytest.fixture(scope="session")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Complete:
    """The stack with everything on; nobody may add to it."""
    from tests.infra.complete import synthesize

    return synthesize(tmp_path_factory.mktemp("complete"))


@pytest.fixture(scope="session")
def template(app: App) -> Mapping[str, Any]:
    from tests.infra.templates import synthesized

    return synthesized(app)
