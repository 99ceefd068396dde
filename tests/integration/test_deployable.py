"""Templates leave out what MiniStack can't deploy, nothing else, and only as long as it can't."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from tests.support.deployable import GAPS, Gap, deployable, left_out
from tests.support.deployed import Cloud, DeploymentFailed, Stack, bootstrap, cloud_at
from tests.support.environment import with_test_credentials

QUEUE = {"Type": "AWS::SQS::Queue"}
ALARM = {"Type": "AWS::CloudWatch::Alarm", "Properties": {"MetricName": "a", "Namespace": "b"}}
BUDGET = {"Type": "AWS::Budgets::Budget"}


def template(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def test_a_type_that_the_table_does_not_know_stays_in() -> None:
    unknown = template(One={"Type": "AWS::Nobody::Knows"}, Two=QUEUE, Three=ALARM)
    assert left_out(unknown) == {}
    assert deployable(unknown)["Resources"].keys() == unknown["Resources"].keys()


def test_what_refers_to_what_is_left_out_goes_too_and_says_why() -> None:
    told = {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"Body": [{"Ref": "Budget"}]}}
    about = {"Type": "AWS::SSM::Parameter", "Properties": {"Value": {"Fn::GetAtt": ["Told", "a"]}}}
    given = template(Budget=BUDGET, Told=told, About=about, Queue=QUEUE)
    assert left_out(given).keys() == {"Budget", "Told", "About"}
    assert left_out(given)["About"] == "refers to Told"


def test_what_only_comes_after_it_stays_in() -> None:
    given = template(
        Budget=BUDGET,
        One=QUEUE | {"DependsOn": "Budget"},
        Two=QUEUE | {"DependsOn": ["Budget", "One"]},
    )
    left = deployable(given)["Resources"]
    assert {name: resource["DependsOn"] for name, resource in left.items()} == {
        "One": [],
        "Two": ["One"],
    }


def test_an_output_of_what_is_left_out_is_left_out() -> None:
    outputs = {"A": {"Value": {"Ref": "Budget"}}, "B": {"Value": {"Ref": "Queue"}}}
    given = template(Budget=BUDGET, Queue=QUEUE) | {"Outputs": outputs}
    assert deployable(given)["Outputs"].keys() == {"B"}


@pytest.fixture
def cloud(ministack: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cloud]:
    with_test_credentials(monkeypatch, tmp_path)
    with cloud_at(ministack) as made:
        bootstrap(made)
        yield made


# Once this fails, MiniStack supports it: remove the row.
@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: gap.type)
def test_ministack_still_refuses_what_the_table_leaves_out(gap: Gap, cloud: Cloud) -> None:
    refused = template(Refused={"Type": gap.type, "Properties": gap.example})
    assert left_out(refused).keys() == {"Refused"}
    with pytest.raises((ClientError, DeploymentFailed), match=gap.says):
        Stack(cloud, f"gap-{uuid4().hex}").create(refused)


def test_a_schedule_of_a_template_loses_its_time_zone(cloud: Cloud) -> None:
    # Once this fails, MiniStack supports it: remove its line from docs/emulators.md.
    name = f"zone-{uuid4().hex}"
    role = f"arn:aws:iam::{cloud.account}:role/any"
    schedule = {
        "Name": name,
        "ScheduleExpression": "cron(0 8 * * ? *)",
        "ScheduleExpressionTimezone": "Europe/Berlin",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {"Arn": f"arn:aws:sqs:us-east-1:{cloud.account}:any", "RoleArn": role},
    }
    stack = Stack(cloud, name)
    stack.create(template(Any={"Type": "AWS::Scheduler::Schedule", "Properties": schedule}))
    made = cloud.client("scheduler").get_schedule(Name=name)
    stack.delete()
    assert made["ScheduleExpressionTimezone"] == "UTC"


def test_a_deployment_that_fails_says_what_failed_and_why(cloud: Cloud) -> None:
    bad = template(Bad={"Type": "AWS::CloudWatch::Alarm", "Properties": {"EvaluationPeriods": 1}})
    with pytest.raises(
        DeploymentFailed, match=r"ROLLBACK_COMPLETE: Bad \(AWS::CloudWatch::Alarm\)"
    ):
        Stack(cloud, f"bad-{uuid4().hex}").create(bad)
