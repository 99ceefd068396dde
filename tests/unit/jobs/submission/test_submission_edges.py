"""Edge cases of submissions: each is accepted, or refused by an error that names the field."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import App, JobType, Priority, Tenant, Unique, cron
from headgate.jobs.client.async_client import AsyncClient
from headgate.jobs.client.client import Client
from headgate.jobs.definitions.options.uniqueness import LONGEST_UNIQUE
from headgate.jobs.errors import OptionInvalid, PayloadInvalid, SubmissionError
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.submission.prepare import Submission, prepare
from headgate.jobs.testing import Harness
from tests.support import odd_values

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NIGHTLY = cron("0 2 * * ? *")
DAYS = timedelta(days=3)
NUMBERS = [math.nan, math.inf, -math.inf]

APP = App("shop", stage="test")
ANYTHING: JobType[Any, None] = APP.define("anything", cast("type[Any]", Any))
ORDERED: JobType[Any, None] = APP.queue("ledger", fifo=True).define(
    "ordered", cast("type[Any]", Any)
)

Submit = Callable[[Client, Any], object]
AsyncSubmit = Callable[[AsyncClient, Any], Awaitable[object]]


EACH_WAY = pytest.mark.parametrize(
    "submit",
    [
        lambda client, payload: client.submit(ANYTHING, payload),
        lambda client, payload: client.submit(ANYTHING, payload, delay=DAYS),
        lambda client, payload: client.submit(ANYTHING, payload, at=NOW + DAYS),
        lambda client, payload: client.submit_many(ANYTHING, [None, payload]),
        lambda client, payload: client.schedules.create("n", ANYTHING, payload, schedule=NIGHTLY),
    ],
    ids=["submit", "delay", "at", "submit_many", "schedule"],
)
"""The same for both clients; the async one's calls are awaited."""


@pytest.mark.parametrize("number", NUMBERS)
@EACH_WAY
def test_no_way_of_submitting_takes_a_number_that_json_lacks(submit: Submit, number: float) -> None:
    jobs = Harness(APP)
    with pytest.raises(PayloadInvalid, match=r"'anything' is not valid: sizes\.0: JSON has"):
        submit(jobs.client, {"sizes": [number]})
    assert jobs.sqs.calls == []
    assert jobs.scheduler.schedules == []


@pytest.mark.parametrize("number", NUMBERS)
@EACH_WAY
async def test_no_awaited_way_of_submitting_takes_one_either(
    submit: AsyncSubmit, number: float
) -> None:
    jobs = Harness(APP)
    with pytest.raises(PayloadInvalid, match=r"'anything' is not valid: sizes\.0: JSON has"):
        await submit(jobs.async_client, {"sizes": [number]})
    assert jobs.sqs.calls == []
    assert jobs.scheduler.schedules == []


ODD: st.SearchStrategy[object] = st.one_of(
    odd_values.ODD,
    st.just(object),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.sampled_from(
        [
            datetime.max.replace(tzinfo=UTC),
            datetime.min.replace(tzinfo=UTC),
            datetime.fromisoformat("9999-12-31T23:59:59-14:00"),
            datetime.fromisoformat("0001-01-01T00:00:00+14:00"),
        ]
    ),
    st.timedeltas(),
    st.sampled_from([timedelta.max, timedelta.min, timedelta.resolution]),
)
"""Values of every kind, and the extremes of those that have any."""

OVERRIDES = st.fixed_dictionaries(
    {},
    optional={
        "delay": ODD,
        "at": ODD,
        "priority": ODD | st.sampled_from(Priority),
        "max_attempts": ODD,
        "timeout": ODD,
        "tenant": ODD | st.builds(Tenant, org=st.just("org-1") | st.text(), workspace=ODD),
        "group": ODD | st.just("a"),
        "unique": ODD
        | st.builds(
            Unique,
            within=st.timedeltas(timedelta.resolution, LONGEST_UNIQUE),
            key=st.none() | st.text(min_size=1) | st.just(lambda _: "key"),
            keep=st.sampled_from(["first", "last"]),
        ),
    },
)


@settings(max_examples=200)
@given(overrides=OVERRIDES, job=st.sampled_from([ANYTHING, ORDERED]))
def test_any_options_are_accepted_or_refused_with_a_typed_error(
    overrides: dict[str, Any], job: JobType[Any, None]
) -> None:
    submission = taken(job, overrides)
    if isinstance(submission, SubmissionError):
        assert repr(job.name) in str(submission)
    else:
        assert parse(submission.message.body) == submission.envelope
        submission.event(NOW)


def taken(job: JobType[Any, None], overrides: Any) -> Submission | SubmissionError:
    """Return the resulting submission, or the error that refuses it."""
    job_id = new_job_id(NOW)
    try:
        return prepare(APP, APP.topology, job, None, overrides, now=NOW, job_id=job_id)
    except SubmissionError as error:
        return error


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        ({"at": datetime.fromisoformat("9999-12-31T23:59:59-14:00")}, "after the year 9999"),
        ({"at": NOW.date()}, "at must be a datetime"),
        ({"tenant": 5}, "tenant must be 1 to 128 ASCII"),
        ({"tenant": ""}, "tenant must be 1 to 128 ASCII"),
        ({"tenant": "\ud800"}, "tenant must be 1 to 128 ASCII"),
        ({"unique": timedelta.max}, "unique must be a Unique or False"),
        ({"tenant": Tenant(org="org-1", workspace="\ud800")}, "workspace must be a string"),
        ({"tenant": Tenant(org="org-1", workspace=cast("Any", 5))}, "workspace must be a string"),
        ({"priority": ["high"]}, r"\['high'\] is not a priority"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_by_its_name(
    overrides: dict[str, Any], fault: str
) -> None:
    with pytest.raises(SubmissionError, match=f"'anything': .*{fault}"):
        Harness(APP).client.submit(ANYTHING, None, **overrides)


@pytest.mark.parametrize("group", ["", 0, False, "a b", "x" * 129])
def test_a_group_that_was_given_is_never_replaced_by_the_tenant(group: Any) -> None:
    with pytest.raises(OptionInvalid, match="each job needs a group"):
        Harness(APP).client.submit(ORDERED, None, group=group, tenant="org-1")
