from __future__ import annotations

from collections import Counter

import pytest

from examples.shop.contracts import app
from headgate.jobs.core.topology import Priority
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.execution.outcome import Reason
from headgate.ops.demo import DemoOptions
from headgate.ops.demo.options import LEAST_JOBS
from headgate.ops.demo.plan import FinalOutcome, Plan, batches, make_plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(LEAST_JOBS, seed=1)


def test_the_same_seed_gives_the_same_plan(plan: Plan) -> None:
    assert make_plan(LEAST_JOBS, seed=1) == plan
    assert make_plan(LEAST_JOBS, seed=2) != plan


@pytest.mark.parametrize("jobs", [LEAST_JOBS, 101, 2000])
def test_a_plan_has_exactly_as_many_jobs_as_asked_for(jobs: int) -> None:
    assert len(make_plan(jobs, seed=1).jobs) == jobs


def test_the_smallest_plan_has_every_type_and_every_priority_of_every_queue(plan: Plan) -> None:
    assert {job.type.name for job in plan.jobs} == set(app.types)
    assert {job.queue.priority for job in plan.jobs} == set(Priority)
    assert {job.queue.name for job in make_plan(2000, seed=1).jobs} == {
        spec.name for spec in app.topology.queues
    }


def test_the_smallest_plan_has_every_ending_and_every_reason_to_die(plan: Plan) -> None:
    assert {job.expected.ending for job in plan.jobs} == set(FinalOutcome)
    reasons = {job.expected.reason for job in plan.jobs} | {m.reason for m in plan.messages}
    assert reasons == {
        None,
        Reason.ATTEMPTS_EXHAUSTED,
        Reason.DO_NOT_RETRY,
        Reason.PERMANENT_ERROR,
        Reason.UNKNOWN_TYPE,
        Reason.UNREADABLE,
    }


def test_the_smallest_plan_uses_both_clients_delays_tenants_and_every_schedule(plan: Plan) -> None:
    assert {job.plain for job in plan.jobs} == {True, False}
    assert any("delay" in job.overrides for job in plan.jobs)
    assert len({str(job.overrides.get("tenant")) for job in plan.jobs}) > 3
    assert len(plan.schedules) == 5
    assert plan.total_jobs == len(plan.jobs) + 5


def test_a_dead_jobs_last_failure_is_not_retried(plan: Plan) -> None:
    for job in plan.jobs:
        dead = job.expected.ending is FinalOutcome.DEAD
        assert job.expected.retries == job.expected.failures - dead
        assert (job.expected.reason is not None) is dead


def test_a_batch_has_one_type_and_overrides_and_no_job_is_lost(
    plan: Plan,
) -> None:
    found = list(batches(plan.jobs))
    for batch in found:
        assert len({job.type.name for job in batch}) == 1
        assert all(job.overrides == batch[0].overrides for job in batch)
    payloads = Counter(repr(job.payload) for batch in found for job in batch)
    assert payloads == Counter(repr(job.payload) for job in plan.jobs)


@pytest.mark.parametrize("bad", [{"jobs": 99}, {"workers": 0}, {"workers": 9}])
def test_options_out_of_range_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(SettingsInvalid):
        DemoOptions(**bad)  # type: ignore[arg-type]  # values of several types
