"""The standby of a stage: its fields, and what must not be shared between regions."""

from __future__ import annotations

from typing import Any

import pytest

from headgate import Existing
from headgate.jobs.deployment.cdk_context import read_deployment
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.regions.standby import existing_in, read_standby
from headgate.jobs.errors import ConfigurationError

KEY = "arn:aws:kms:{}:111122223333:key/1"
STORED = "arn:aws:secretsmanager:{}:111122223333:secret:db-AbCdEf"
QUEUE = "arn:aws:sqs:{}:111122223333:orders"
ACTIVE, REGION = "eu-central-1", "eu-west-1"


def context(standby: Any, **fields: Any) -> dict[str, Any]:
    stage = {"region": ACTIVE, **fields, "standby_in": standby}
    return {"headgate:deployment": {"budget_usd": 90}, "headgate:stages": {"prod": stage}}


def test_a_standby_is_the_stage_without_tasks_schedules_and_a_budget_of_its_own() -> None:
    declared = context({"region": REGION}, workers=[{"min_tasks": 2, "max_tasks": 20}])
    standby = read_standby(declared, "prod")
    assert standby is not None
    assert standby.region == REGION
    assert standby.deployment == Deployment(
        workers=(WorkerGroup(min_tasks=0, max_tasks=20),), budget_usd=0, standby=True
    )
    active = read_deployment(declared, "prod")
    assert (active.standby, active.budget_usd) == (False, 90)


def test_fields_beside_the_region_replace_the_stages() -> None:
    given = {"region": REGION, "workers": [{"min_tasks": 1}], "budget_usd": 5}
    standby = read_standby(context(given), "prod")
    assert standby is not None
    assert standby.deployment.workers == (WorkerGroup(min_tasks=1),)
    assert standby.deployment.budget_usd == 5


def test_a_stage_without_one_has_no_standby() -> None:
    assert read_standby({}, None) is None
    assert read_standby({"headgate:stages": {"prod": {}}}, "prod") is None


@pytest.mark.parametrize(
    ("standby", "said"),
    [
        ("eu-west-1", "must be an object that names a region"),
        ({}, "must be an object that names a region"),
        ({"region": ACTIVE}, "its region is the stage's own"),
        ({"region": REGION, "worker": []}, "the deployment's worker"),
    ],
)
def test_a_wrong_standby_is_refused(standby: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_standby(context(standby), "prod")


def test_a_stage_with_a_standby_names_its_own_region() -> None:
    stages = {"prod": {"standby_in": {"region": REGION}}}
    with pytest.raises(ConfigurationError, match="name the region of the stage itself"):
        read_standby({"headgate:stages": stages}, "prod")


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"encryption_key": KEY.format(ACTIVE)}, "encryption_key"),
        ({"log_key": KEY.format(ACTIVE)}, "log_key"),
        ({"cluster": "shared"}, "cluster"),
        ({"vpc": {"id": "vpc-1", "subnets": ["subnet-1"]}}, "vpc"),
        ({"secrets": {"PASSWORD": STORED.format(ACTIVE)}}, "the secret PASSWORD"),
        (
            {"workers": [{"secrets": {"PASSWORD": STORED.format(ACTIVE)}}]},
            "the secret PASSWORD",
        ),
    ],
)
def test_what_belongs_to_one_region_is_not_used_in_the_other(
    fields: dict[str, Any], what: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"{what} is in another region than eu-west-1"):
        read_standby(context({"region": REGION}, **fields), "prod")


def test_a_standby_may_name_its_own_key_and_share_parameters_by_name() -> None:
    declared = context(
        {"region": REGION, "encryption_key": KEY.format(REGION)},
        encryption_key=KEY.format(ACTIVE),
        secrets={"PASSWORD": "ssm:db-password"},
    )
    standby = read_standby(declared, "prod")
    assert standby is not None
    assert standby.deployment.encryption_key == KEY.format(REGION)


def test_existing_resources_of_the_stage_are_not_those_of_its_standby() -> None:
    with pytest.raises(ConfigurationError, match='name those in eu-west-1 as "existing" here'):
        read_standby(context({"region": REGION}, existing={"table": "jobs"}), "prod")


@pytest.mark.parametrize(
    ("given", "there"),
    [({}, Existing()), ({"table": "jobs"}, Existing(table="jobs"))],
    ids=["created", "named"],
)
def test_a_standby_says_what_exists_there(given: dict[str, Any], there: Existing) -> None:
    declared = context({"region": REGION, "existing": given}, existing={"table": "jobs"})
    standby = read_standby(declared, "prod")
    assert standby is not None
    assert standby.existing == there


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"queues": {"orders": {"normal": {"queue": QUEUE.format(ACTIVE)}}}}, QUEUE.format(ACTIVE)),
        ({"table": "jobs", "table_key": KEY.format(ACTIVE)}, "in another region than eu-west-1"),
        ({"bucket": "arn:aws:s3:::shared"}, "the bucket 'shared' is the stage's own"),
        ({"tabel": "jobs"}, "existing.tabel"),
    ],
)
def test_what_exists_in_the_other_region_is_none_of_a_standby_s(
    given: dict[str, Any], said: str
) -> None:
    declared = context({"region": REGION, "existing": given}, existing={"bucket": "shared"})
    with pytest.raises(ConfigurationError, match=said):
        read_standby(declared, "prod")


def console(certificate: str, secret: str) -> dict[str, Any]:
    places = ("issuer", "authorization_endpoint", "token_endpoint", "user_info_endpoint")
    return {
        "domain": "console.example.com",
        "certificate": f"arn:aws:acm:{certificate}:111122223333:certificate/1",
        "admits": ["10.0.0.0/8"],
        "sign_in": {
            **dict.fromkeys(places, "https://id.example.com/a"),
            "client_id": "headgate",
            "client_secret": STORED.format(secret),
        },
    }


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (console(ACTIVE, REGION), "the console's certificate"),
        (console(REGION, ACTIVE), "the console's client_secret"),
    ],
)
def test_a_console_s_certificate_and_secret_are_those_of_its_region(
    made: dict[str, Any], what: str
) -> None:
    there = {"region": REGION, "vpc": {"id": "vpc-2", "subnets": ["subnet-3", "subnet-4"]}}
    declared = context(
        {**there, "console": made},
        vpc={"id": "vpc-1", "subnets": ["subnet-1", "subnet-2"]},
        console=console(ACTIVE, ACTIVE),
    )
    with pytest.raises(ConfigurationError, match=f"{what} is in another region than eu-west-1"):
        read_standby(declared, "prod")


def nowhere() -> str:
    raise AssertionError("the region is not asked for")


def test_what_exists_without_a_standby_does_not_depend_on_the_region() -> None:
    common = {"headgate:deployment": {"existing": {"bucket": "shared"}}}
    assert existing_in(common, None, nowhere) == Existing(bucket="shared")
    stages = {"headgate:stages": {"prod": {"existing": {"table": "jobs"}}, "dev": {}}}
    assert existing_in({**common, **stages}, "prod", nowhere) == Existing(table="jobs")
    assert existing_in(stages, "dev", nowhere) is None


@pytest.mark.parametrize("stage", [None, "qa"])
def test_nothing_exists_of_a_stage_that_is_not_declared(stage: str | None) -> None:
    declared = context({"region": REGION, "existing": {}}, existing={"table": "jobs"})
    assert existing_in(declared, stage, nowhere) is None


@pytest.mark.parametrize(
    ("region", "there"),
    [(ACTIVE, "jobs"), ("us-east-1", "jobs"), (None, "jobs"), (REGION, "west")],
)
def test_what_exists_is_the_standby_s_in_its_region(region: str | None, there: str) -> None:
    given = {"region": REGION, "existing": {"table": "west"}}
    declared = context(given, existing={"table": "jobs"})
    assert existing_in(declared, "prod", lambda: region) == Existing(table=there)


def test_a_standby_that_says_it_has_nothing_has_nothing() -> None:
    declared = context({"region": REGION, "existing": {}}, existing={"table": "jobs"})
    assert existing_in(declared, "prod", lambda: REGION) == Existing()
