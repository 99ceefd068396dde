"""A deployment with the web console, and its part of a stack by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam

from headgate.infra.fargate.console_service import console_beside
from headgate.infra.fargate.network import Network
from headgate.infra.fargate.worker_service import Workers
from headgate.infra.ijob_system import IJobSystem
from headgate.jobs.deployment.cdk_context import parse_deployment
from tests.infra.fargate.workers import IMAGE

SECRET = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:console-AbCdEf"  # noqa: S105 - an ARN, which is no secret
CERTIFICATE = "arn:aws:acm:eu-central-1:111122223333:certificate/0a1b2c3d"
SIGN_IN: Mapping[str, Any] = {
    "issuer": "https://id.shop.example",
    "authorization_endpoint": "https://id.shop.example/authorize",
    "token_endpoint": "https://id.shop.example/token",
    "user_info_endpoint": "https://id.shop.example/userinfo",
    "client_id": "headgate",
    "client_secret": SECRET,
}
CONSOLE: Mapping[str, Any] = {
    "domain": "console.shop.example",
    "certificate": CERTIFICATE,
    "admits": ["10.0.0.0/8", "192.0.2.0/24"],
    "sign_in": SIGN_IN,
}
VPC: Mapping[str, Any] = {
    "id": "vpc-0a1b2c3d4e5f60718",
    "subnets": ["subnet-0a1b2c3d4e5f60718", "subnet-1b2c3d4e5f6071829"],
    "security_groups": ["sg-0a1b2c3d4e5f60718"],
}
CDK_JSON: Mapping[str, Any] = {
    "vpc": VPC,
    "console": CONSOLE,
    "environment": {"CURRENCY": "EUR"},
    "secrets": {"DATABASE_PASSWORD": f"{SECRET}:password"},
}


class Granting(IJobSystem):
    """A system of nothing but workers and a console, which remembers what it grants."""

    def __init__(self, stack: cdk.Stack, fields: Mapping[str, Any]) -> None:
        super().__init__(stack, "Jobs")
        self.granted: list[tuple[str, bool]] = []
        deployment = parse_deployment(fields)
        network = Network(
            self, "Network", deployment=deployment, vpc=None, long_delays=False, seals=False
        )
        image = ecs.ContainerImage.from_registry(IMAGE)
        workers = Workers(self, "Workers", network=network, image=image, deployment=deployment)
        self.console = console_beside(self, workers, deployment, {})

    def grant_view(self, grantee: iam.IGrantable) -> iam.Grant:
        self.granted.append(("view", False))
        return iam.Grant.drop(grantee, "remembered")

    def grant_operate(
        self, grantee: iam.IGrantable, *, opens: bool = False, erase: bool = False
    ) -> iam.Grant:
        assert not erase
        self.granted.append(("operate", opens))
        return iam.Grant.drop(grantee, "remembered")


def with_console(**fields: Any) -> Mapping[str, Any]:
    return {**CDK_JSON, "console": {**CONSOLE, **fields}}
