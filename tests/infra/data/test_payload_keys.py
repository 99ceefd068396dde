"""Grants on the keys of ``App(encryption=...)``, decided by IAM's rules."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam

from headgate import App, Encryption
from headgate.infra.data.payload_keys import PayloadKey
from headgate.infra.job_system import JobSystem
from headgate.jobs.definitions.sealing import has_own_key
from tests.infra.conftest import NO_BUNDLING, Params
from tests.infra.templates import resources, template_of
from tests.support.attempts import GRANTS
from tests.support.cloudformation import ACCOUNT, REGION, Resolved, resolve
from tests.support.iam import Policies

ALIAS = "alias/shop-prod-payloads"
OLD = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/old"
NEW = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/new"

ALLOWED: Mapping[str, set[str]] = {
    "submit": {"seal payload"},
    "submit-unique": {"seal payload"},
    "follow": {"open result"},
    "work-on-mail": {"open payload", "seal result"},
    "manage-schedules": {"seal payload"},
    "operate": {"seal payload"},
    "operate-openly": {"seal payload", "open payload", "open result"},
}


def _app(encryption: Encryption | None, *, once: bool = False) -> App:
    app = App("shop", stage="prod", encryption=encryption)
    app.define("send", Params)
    app.queue("mail").define("mail", Params, once=once)
    app.queue("money").define("pay", Params)
    return app


def _template(app: App) -> Resolved:
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Own")
    system = JobSystem.from_app(stack, "Jobs", app=app)
    tasks = iam.ServicePrincipal("ecs-tasks.amazonaws.com")
    for name, grant in GRANTS.items():
        grant(system, iam.Role(stack, name, assumed_by=tasks, role_name=name))
    system.grant_operate(
        iam.Role(stack, "operate-openly", assumed_by=tasks, role_name="operate-openly"), opens=True
    )
    return resolve(template_of(stack))


def _allowed(policies: Policies, role: str, key: str, **context: str) -> set[str]:
    """Return what a role may do; a key's own policy that delegates to IAM is supposed."""
    arn = f"arn:aws:iam::{ACCOUNT}:role/{role}"
    delegated = Policies(identity=policies.identity, resource={key: [_DELEGATES]})
    found = set()
    for action, word in (("kms:GenerateDataKey", "seal"), ("kms:Decrypt", "open")):
        for use in ("payload", "result"):
            keys = {
                "kms:EncryptionContext:app": "shop",
                "kms:EncryptionContext:stage": "prod",
                "kms:EncryptionContext:use": use,
                **context,
            }
            if delegated.allows(arn, action, key, **keys):
                found.add(f"{word} {use}")
    return found


_DELEGATES = {
    "Effect": "Allow",
    "Action": "kms:*",
    "Resource": "*",
    "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
}


@pytest.fixture(scope="module")
def policies() -> Policies:
    return Policies.of(_template(_app(Encryption(keys=[ALIAS, OLD]))))


@pytest.mark.parametrize("role", ALLOWED)
def test_each_role_may_use_the_newest_key_for_its_own_work_alone(
    role: str, policies: Policies
) -> None:
    context = {"kms:RequestAlias": ALIAS}
    assert _allowed(policies, role, NEW, **context) == ALLOWED[role]
    assert _allowed(policies, role, NEW) == set(), "by the alias alone"
    elsewhere = context | {"kms:EncryptionContext:app": "other"}
    assert _allowed(policies, role, NEW, **elsewhere) == set()


@pytest.mark.parametrize("role", ALLOWED)
def test_an_earlier_key_opens_and_seals_nothing(role: str, policies: Policies) -> None:
    opening = {each for each in ALLOWED[role] if each.startswith("open")}
    assert _allowed(policies, role, OLD) == opening


def test_a_worker_of_once_types_may_open_results_too() -> None:
    policies = Policies.of(_template(_app(Encryption(keys=[OLD]), once=True)))
    found = _allowed(policies, "work-on-mail", OLD)
    assert found == {"open payload", "open result", "seal result"}


def test_the_apps_own_key_is_created_under_its_alias_rotated_and_retained() -> None:
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Own")
    kept = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    PayloadKey(stack, "Key", app=_app(Encryption()), removal_policy=kept)
    template = template_of(stack)
    [key] = resources(template, "AWS::KMS::Key").values()
    [alias] = resources(template, "AWS::KMS::Alias").values()
    assert key["EnableKeyRotation"] is True
    assert alias["AliasName"] == ALIAS
    made = [each for each in template["Resources"].values() if each["Type"] == "AWS::KMS::Key"]
    assert [each["DeletionPolicy"] for each in made] == ["RetainExceptOnCreate"]


def test_no_key_is_created_where_the_app_names_others() -> None:
    assert has_own_key(_app(Encryption()))
    assert not has_own_key(_app(Encryption(keys=[OLD])))
    assert not has_own_key(_app(None))


def test_an_app_without_encryption_has_nothing_of_it_in_its_template() -> None:
    assert "kms:" not in str(_template(_app(None)))
