"""A job's own backoff and retention, as its submission sets them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from headgate import App, Backoff, JobType, Keep, Retry
from headgate.errors import OptionInvalid
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.submission.prepare import Submission, prepare

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
APP = App("shop")
SEND: JobType[None, None] = APP.define("send", retry=Retry(max_attempts=4))
ORDERED: JobType[None, None] = APP.queue("orders", fifo=True).define("ship")


def submitted(job: JobType[None, None] = SEND, **overrides: Any) -> Submission:
    options = cast("SubmitOptions", overrides)
    return prepare(APP, APP.topology, job, None, options, now=NOW, job_id=new_job_id(NOW))


def options(**overrides: Any) -> Any:
    return json.loads(submitted(**overrides).message.body).get("options")


def test_the_message_says_nothing_of_them_unless_they_are_set() -> None:
    assert options() is None
    assert options(backoff=None, keep=None) is None
    assert options(max_attempts=2) == {"attempts": 2}


def test_the_message_has_them_as_values() -> None:
    assert options(backoff=Backoff.fixed(30), keep=60) == {
        "backoff": {"kind": "steps", "delays_s": [30.0]},
        "keep": {"completed_s": 60.0},
    }


def test_a_duration_is_the_retention_of_the_completed_job_alone() -> None:
    assert options(keep=timedelta(hours=1))["keep"] == {"completed_s": 3600.0}
    assert options(keep=0)["keep"] == {"completed_s": 0.0}
    both = options(keep=Keep(completed=60, failed=timedelta(days=90)))["keep"]
    assert both == {"completed_s": 60.0, "failed_s": 7_776_000.0}


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        ({"retry": Retry()}, r"write max_attempts=\.\.\. and backoff=\.\.\."),
        ({"backoff": 30}, r"'send': backoff must be a Backoff, such as .* got 30"),
        (
            {"backoff": Backoff.custom(lambda _: 1)},
            r"'send': .* is a function, which no message can",
        ),
        ({"keep": -1}, "'send': keep must not be negative"),
        ({"keep": "7d"}, "'send': keep must be a timedelta or a number of seconds"),
        ({"keep": timedelta(days=40_000)}, "'send': keep must be at most 36,525 days"),
        ({"keep": Keep(failed=timedelta(days=40_000))}, "'send': keep must be at most"),
        ({"keep": Keep(last=5)}, r"Keep\(last=5\) bounds the number of a type's jobs"),
        ({"keep": Keep(last_failed=5)}, r"Keep\(last_failed=5\) bounds the number"),
        ({"cost": 3}, r"a submission has no option 'cost': .*rate_limit=RateLimit\(\.\.\., cost="),
    ],
    ids=str,
)
def test_a_faulty_one_is_refused_with_what_to_write_instead(
    overrides: dict[str, Any], fault: str
) -> None:
    with pytest.raises(OptionInvalid, match=fault):
        submitted(**overrides)


def test_a_fifo_queue_refuses_a_backoff_that_it_could_not_keep_to() -> None:
    long = Backoff.steps(60, timedelta(hours=13))
    with pytest.raises(OptionInvalid, match="no retry can wait longer than 12:00:00"):
        submitted(ORDERED, group="a", backoff=long)
    submitted(ORDERED, group="a", backoff=long, max_attempts=2)  # it never gets to the second
    submitted(backoff=long)
