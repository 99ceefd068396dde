"""Synthesis refuses or shows findings of `headgate check`; properties of all resources."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import aws_cdk as cdk
import pytest

from headgate import App, cron
from headgate.infra.job_system import JobSystem
from headgate.infra.stack import HeadgateStack
from headgate.jobs.deployment.checks.check import check
from headgate.jobs.errors import AppFaulty
from tests.infra.complete import Complete
from tests.infra.conftest import ELSEWHERE, NO_BUNDLING, Params
from tests.infra.everything import everything
from tests.infra.templates import template_of
from tests.unit.jobs.deployment.test_checks import NOW, PASSING_AND_FAILING

FOR_TRIAL = replace(ELSEWHERE, keep_data=False)


def system(app: App, now: datetime = NOW) -> JobSystem:
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Stack")
    return JobSystem(stack, "Jobs", app=app, deployment=FOR_TRIAL, now=now)


def warnings(system: JobSystem) -> list[str]:
    return [str(each.data) for each in system.node.metadata if each.type == "aws:cdk:warning"]


@pytest.mark.parametrize("rule", PASSING_AND_FAILING)
def test_an_app_that_passes_a_rule_is_synthesized_without_a_word(rule: str) -> None:
    passing, _ = PASSING_AND_FAILING[rule]
    assert warnings(system(passing())) == []


def of_severity(severity: str) -> list[str]:
    return [
        rule
        for rule, (_, failing) in PASSING_AND_FAILING.items()
        if check(failing(), NOW)[0].severity == severity
    ]


@pytest.mark.parametrize("rule", of_severity("error"))
def test_an_app_with_an_error_is_not_synthesized(rule: str) -> None:
    _, failing = PASSING_AND_FAILING[rule]
    with pytest.raises(AppFaulty, match=rf"\[{rule}\]"):
        system(failing())


@pytest.mark.parametrize("rule", of_severity("warning"))
def test_a_warning_is_shown_with_the_synthesis_and_can_be_acknowledged(rule: str) -> None:
    _, failing = PASSING_AND_FAILING[rule]
    jobs = system(failing())
    [fault] = check(failing(), NOW)
    [shown] = warnings(jobs)
    assert str(fault) in shown

    cdk.Annotations.of(jobs).acknowledge_warning(f"headgate:{rule}:{fault.where}", "Known")

    assert warnings(jobs) == []


def test_dead_letters_that_expire_first_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    app = everything()
    first, *others = app.topology.queues
    forgetful = replace(first, dlq_retention=first.retention)
    monkeypatch.setattr(App, "topology", replace(app.topology, queues=(forgetful, *others)))
    with pytest.raises(AppFaulty, match="dead-letters-expire-first"):
        system(app)


def test_all_errors_are_told_at_once() -> None:
    app = App("shop", long_delays=False)
    app.define("leap", Params, schedule=cron("0 8 30 2 ? *"))
    app.define("slow", Params, schedule=cron("0 8 31 4 ? *"))
    with pytest.raises(AppFaulty) as refused:
        system(app)
    assert [fault.where for fault in refused.value.faults] == ["type leap", "type slow"]
    assert str(refused.value).count("\n- ") == 2


def test_a_schedule_is_judged_by_the_time_that_is_handed_in() -> None:
    app = App("shop")
    app.define("report", Params, schedule=cron("0 8 1 1 ? 2027"))
    assert warnings(system(app, now=datetime(2026, 12, 31, tzinfo=UTC))) == []
    [shown] = warnings(system(app, now=datetime(2027, 1, 2, tzinfo=UTC)))
    assert "[schedule-over]" in shown


def test_the_stack_of_an_app_without_faults_says_nothing_at_synthesis(complete: Complete) -> None:
    said = [
        str(entry.data)
        for each in complete.stack.node.find_all()
        for entry in each.node.metadata
        if entry.type in ("aws:cdk:warning", "aws:cdk:error")
    ]
    assert said == []


def test_all_that_costs_money_has_the_tags_of_its_app_and_stage(complete: Complete) -> None:
    tags = {"headgate:app": "shop", "headgate:stage": "prod"}
    managers = tag_managers(complete.stack)
    assert len(managers) > len(everything().topology.queues)
    untagged = [
        path for path, each in managers.items() if not tags.items() <= each.tag_values().items()
    ]
    assert untagged == []


def alone() -> App:
    app = App("shop")
    app.define("send-email", Params)
    return app


def test_what_has_no_stage_has_the_tag_of_its_app_alone() -> None:
    stack = HeadgateStack(cdk.App(context=NO_BUNDLING), "Stack", app=alone(), deployment=FOR_TRIAL)
    template_of(stack)  # tags are set at synthesis
    for each in tag_managers(stack).values():
        assert each.tag_values().items() >= {("headgate:app", "shop")}
        assert "headgate:stage" not in each.tag_values()


def tag_managers(stack: cdk.Stack) -> dict[str, cdk.TagManager]:
    """Return what holds the tags of each resource that can be tagged, by its path."""
    return {
        each.node.path: manager
        for each in stack.node.find_all()
        if each is not stack and (manager := cdk.TagManager.of(each)) is not None
    }
