"""The stack that exports are read from."""

from __future__ import annotations

from dataclasses import replace

from aws_cdk import DefaultStackSynthesizer, Environment, Stack
from constructs import Construct

from headgate.infra.data.encryption import named_key
from headgate.infra.exported.policies import add_policies
from headgate.infra.job_system import JobSystem
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.serving import groups_elsewhere


class ExportedStack(Stack):
    """An app's system without workers, consumers and alarms, and policies for those elsewhere.

    Args:
        app: the app.
        deployment: its deployment, whose worker groups have a policy each.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, app: App, deployment: Deployment
    ) -> None:
        # Nobody has to have bootstrapped the account for CDK.
        plain = DefaultStackSynthesizer(generate_bootstrap_version_rule=False)
        super().__init__(scope, construct_id, synthesizer=plain)
        groups = groups_elsewhere(deployment)
        self.jobs = JobSystem(self, "Jobs", app=app, deployment=_without_servers(deployment))
        self.policies = add_policies(self, self.jobs, groups)


def _without_servers(deployment: Deployment) -> Deployment:
    """Return a deployment without what other tools don't run, and without what watches it."""
    watched = replace(deployment, workers=(), consumers=(), console=None)
    return replace(watched, alarms=None, mutes=(), budget_usd=0)


class PolicyStack(Stack):
    """The policies alone, for a system in a known account and region.

    Args:
        app: the app.
        deployment: its deployment.
        account: the account that the system is in; likewise the region.
        region: the region.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: App,
        deployment: Deployment,
        account: str,
        region: str,
    ) -> None:
        super().__init__(scope, construct_id, env=Environment(account=account, region=region))
        key = named_key(self, deployment.encryption_key)
        system = JobSystem.from_app(self, "Jobs", app=app, encryption_key=key)
        self.policies = add_policies(self, system, groups_elsewhere(deployment))
