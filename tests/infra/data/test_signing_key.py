"""The key that signs messages: created if it is asked for, and read by those who sign and check."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from headgate import App, Schedule, Signing
from headgate.infra import Deployment, JobSystem
from headgate.jobs.errors import ConfigurationError
from tests.infra.conftest import NO_BUNDLING

READ = "secretsmanager:GetSecretValue"


def _app(signing: Signing | None) -> App:
    app = App("shop", signing=signing)
    app.define("tidy", schedule=Schedule.rate(timedelta(days=1)))
    return app


class Synthesized:
    """A template with a system and a role for each grant."""

    def __init__(self, signing: Signing | None, *, imported: bool = False) -> None:
        stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Shop")
        app = _app(signing)
        deployment = Deployment(workers=(), keep_data=True)
        if imported:
            self.system: Any = JobSystem.from_app(stack, "Jobs", app=app)
        else:
            self.system = JobSystem(stack, "Jobs", app=app, deployment=deployment)
        for name in ("submit", "work", "operate", "follow", "manage_schedules"):
            principal = iam.ServicePrincipal("ecs-tasks.amazonaws.com")
            role = iam.Role(stack, name, assumed_by=principal, role_name=name)
            getattr(self.system, f"grant_{name}")(role)
        self.resources: dict[str, Any] = Template.from_stack(stack).to_json()["Resources"]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.resources.values() if each["Type"] == kind]

    def readers(self) -> set[str]:
        """Return the roles that may read a secret, by their names or logical ids."""
        found = set()
        for each in self.of("AWS::IAM::Policy"):
            if any(_reads(one) for one in each["Properties"]["PolicyDocument"]["Statement"]):
                found |= {self._name(role["Ref"]) for role in each["Properties"]["Roles"]}
        for name, each in self.resources.items():
            inline = each["Properties"].get("Policies", [])
            if each["Type"] == "AWS::IAM::Role" and any(
                _reads(one) for policy in inline for one in policy["PolicyDocument"]["Statement"]
            ):
                found.add(self._name(name))
        return found

    def secrets_read(self) -> list[Any]:
        """Return what the statements that read secrets are granted on."""
        policies = [each["Properties"]["PolicyDocument"] for each in self.of("AWS::IAM::Policy")]
        statements = [one for policy in policies for one in policy["Statement"] if _reads(one)]
        return [one["Resource"] for one in statements]

    def _name(self, logical_id: str) -> str:
        name = self.resources[logical_id]["Properties"].get("RoleName", logical_id)
        return "bridge" if "Bridge" in str(name) else str(name)


def _reads(statement: dict[str, Any]) -> bool:
    return statement["Action"] == READ or READ in statement["Action"]


def test_an_app_without_signing_has_nothing_of_it() -> None:
    made = Synthesized(None)
    assert not made.of("AWS::SecretsManager::Secret")
    assert not made.readers()
    assert "SIGNING" not in str(made.resources)


def test_the_key_is_created_random_and_read_by_those_alone_who_sign_or_check() -> None:
    made = Synthesized(Signing())
    [(logical_id, secret)] = [
        (name, each)
        for name, each in made.resources.items()
        if each["Type"] == "AWS::SecretsManager::Secret"
    ]
    assert secret["Properties"]["Name"] == "shop-signing"
    assert secret["Properties"]["GenerateSecretString"] == {
        "ExcludePunctuation": True,
        "PasswordLength": 64,
    }
    assert secret["DeletionPolicy"] == "RetainExceptOnCreate"
    assert made.readers() == {"submit", "work", "operate", "bridge"}
    assert made.secrets_read() == [{"Ref": logical_id}] * 3
    [bridge] = [
        each["Properties"]["Environment"]["Variables"]
        for each in made.of("AWS::Lambda::Function")
        if each["Properties"].get("FunctionName") == "shop-bridge"
    ]
    assert bridge["HEADGATE_SIGNING_SECRET"] == {"Ref": logical_id}


def test_a_secret_that_exists_is_named_and_not_created() -> None:
    made = Synthesized(Signing(secret="own/key"), imported=True)  # noqa: S106 - a name
    assert not made.of("AWS::SecretsManager::Secret")
    assert {"submit", "work", "operate"} <= made.readers()
    for granted in made.secrets_read():
        assert granted["Fn::Join"][1][-1] == ":secret:own/key-??????"


def test_a_system_of_another_stack_is_read_by_the_name_that_the_app_gives_it() -> None:
    made = Synthesized(Signing(), imported=True)
    for granted in made.secrets_read():
        assert granted["Fn::Join"][1][-1] == ":secret:shop-signing-??????"


def test_keys_of_tests_are_not_deployed() -> None:
    with pytest.raises(ConfigurationError, match="for tests and local use"):
        Synthesized(Signing(keys=[b"a key of thirty-two bytes or more"]))
