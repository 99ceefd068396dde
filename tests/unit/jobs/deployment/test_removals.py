"""A deployment's removals are found in the templates, whatever declaration causes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate import App, Priority
from headgate.jobs.deployment.removals import Removal, removals
from headgate.jobs.deployment.triggers import has_schedules

QUEUE, TABLE = "AWS::SQS::Queue", "AWS::DynamoDB::GlobalTable"
GROUP = "AWS::Scheduler::ScheduleGroup"


def template(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def queue(name: str, **policies: str) -> dict[str, Any]:
    return {"Type": QUEUE, "Properties": {"QueueName": name}, **policies}


def of_app(app: App) -> dict[str, Any]:
    """Return what is named after an app in its template, under a logical id as CDK's."""
    held = {f"Queue{spec.group}{spec.priority}": queue(spec.name) for spec in app.topology.queues}
    if has_schedules(app):
        name = {"Name": app.topology.schedule_group}
        held["SchedulesGroup"] = {"Type": GROUP, "Properties": name}
    return template(**held)


def mail(name: str = "mail", **options: Any) -> Callable[[App], None]:
    def declare(app: App) -> None:
        given = {"priorities": [Priority.HIGH, Priority.LOW], **options}
        app.queue(name, **given).define(f"send-{name}", dict, priority=Priority.HIGH)

    return declare


def app_with(declare: Callable[[App], None], **options: Any) -> App:
    app = App("shop", stage="prod", **options)
    declare(app)
    return app


@pytest.mark.parametrize(
    ("after", "gone"),
    [
        (app_with(mail()), []),
        (app_with(mail("post")), ["shop-prod-mail-high", "shop-prod-mail-low"]),
        (app_with(mail(fifo=True)), ["shop-prod-mail-high", "shop-prod-mail-low"]),
        (app_with(mail(priorities=[Priority.HIGH])), ["shop-prod-mail-low"]),
        (app_with(mail(), long_delays=False), ["shop-prod"]),
    ],
    ids=["the same", "renamed", "fifo", "a priority less", "no long delays"],
)
def test_what_a_changed_declaration_removes_is_named(after: App, gone: list[str]) -> None:
    found = removals(of_app(app_with(mail())), of_app(after))
    assert [each.name for each in found] == gone
    assert not any(each.kept for each in found)


def test_a_removed_queue_stays_by_the_policy_that_it_was_deployed_with() -> None:
    kept = queue("mail", DeletionPolicy="RetainExceptOnCreate")
    assert removals(template(Mail=kept), template()) == [
        Removal(kind="queue", name="mail", kept=True)
    ]


def test_a_replaced_queue_stays_by_the_policy_for_replacements() -> None:
    deployed = template(Mail=queue("mail", DeletionPolicy="Retain", UpdateReplacePolicy="Delete"))
    [found] = removals(deployed, template(Mail=queue("mail.fifo")))
    assert not found.kept


def test_a_queue_under_another_logical_id_is_no_removal() -> None:
    assert removals(template(Mail=queue("mail")), template(Post=queue("mail"))) == []


@pytest.mark.parametrize(("policy", "kept"), [("RetainExceptOnCreate", True), ("Delete", False)])
def test_a_removed_key_is_named_by_its_alias_and_kept_by_its_own_policy(
    policy: str, kept: bool
) -> None:
    stands_for = {"AliasName": "alias/shop", "TargetKeyId": {"Fn::GetAtt": ["Key", "Arn"]}}
    deployed = template(
        Key={"Type": "AWS::KMS::Key", "DeletionPolicy": policy},
        Alias={"Type": "AWS::KMS::Alias", "Properties": stands_for},
    )
    assert removals(deployed, deployed) == []
    assert removals(deployed, template()) == [Removal(kind="key", name="alias/shop", kept=kept)]


def test_a_removed_alias_of_a_key_elsewhere_is_told_by_its_own_policy() -> None:
    stands_for = {"AliasName": "alias/shop", "TargetKeyId": "1234"}
    alias = {"Type": "AWS::KMS::Alias", "Properties": stands_for}
    [found] = removals(template(Alias=alias), template())
    assert not found.kept


def test_what_holds_no_data_or_has_no_name_is_left_out() -> None:
    deployed = template(
        Alarm={"Type": "AWS::CloudWatch::Alarm"},
        SweepGroup={"Type": GROUP, "Properties": {"Tags": []}},
    )
    assert removals(deployed, template()) == []


ACCOUNT, REGION = {"Ref": "AWS::AccountId"}, {"Ref": "AWS::Region"}
HERE = {"AWS::AccountId": "111122223333", "AWS::Region": "eu-central-1"}


def bucket(*name: Any) -> dict[str, Any]:
    joined = {"Fn::Join": ["", ["shop-payloads-", *name]]}
    return {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": joined}}


def test_a_name_with_the_account_in_it_is_told_as_it_is_on_aws() -> None:
    deployed = template(Bucket=bucket(ACCOUNT, "-", REGION))
    assert removals(deployed, deployed, HERE) == []
    [found] = removals(deployed, template(), HERE)
    assert (found.kind, found.name) == ("bucket", "shop-payloads-111122223333-eu-central-1")
    [found] = removals(deployed, template())
    assert found.name == "shop-payloads-<AWS::AccountId>-<AWS::Region>"


def test_a_stage_that_is_given_its_account_and_region_removes_nothing() -> None:
    agnostic = template(Bucket=bucket(ACCOUNT, "-", REGION))
    written = template(Bucket=bucket("111122223333-eu-central-1"))
    assert removals(agnostic, written, HERE) == []
    assert removals(written, agnostic, HERE) == []
    partly = template(Bucket=bucket(ACCOUNT, "-eu-central-1"))
    assert removals(partly, agnostic, HERE) == []


@pytest.mark.parametrize("elsewhere", ["999988887777-eu-central-1", "111122223333-us-east-1"])
def test_a_stage_that_is_given_another_place_removes_its_bucket(elsewhere: str) -> None:
    agnostic = template(Bucket=bucket(ACCOUNT, "-", REGION))
    [found] = removals(agnostic, template(Bucket=bucket(elsewhere)), HERE)
    assert found.name == "shop-payloads-111122223333-eu-central-1"


def test_an_app_that_no_longer_says_all_is_told_of_each_queue_that_goes() -> None:
    def declare(app: App) -> None:
        app.define("send-email", dict, priority=Priority.HIGH)

    before = of_app(app_with(declare, priorities="all"))
    after = of_app(app_with(declare))
    gone = [f"shop-prod-jobs-{each}" for each in ("critical", "low", "normal")]
    assert [each.name for each in removals(before, after)] == gone
