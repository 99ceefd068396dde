"""Settings that all parts of an app's system share: removal policy, variables, grants and tags."""

from __future__ import annotations

from aws_cdk import RemovalPolicy, Stack, Tags
from aws_cdk import aws_iam as iam

from headgate.infra.ijob_system import IJobSystem
from headgate.infra.monitoring.budget import SYSTEM_TAG
from headgate.jobs.aws.descriptions import tags_of
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.variables import app_variables
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.metric_names import service_name
from headgate.jobs.errors import ConfigurationError


def removal_policy(app: App, deployment: Deployment) -> RemovalPolicy:
    """Return the policy of what holds data: where it is kept, only a failed creation undoes it."""
    if deployment.keeps_data(app.stage):
        return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    return RemovalPolicy.DESTROY


def refuse_empty(app: App) -> None:
    """Refuse an app without job types.

    Raises:
        ConfigurationError: it has none.
    """
    if not app.types:
        raise ConfigurationError(
            f"the app {app.name!r} has no job types, so there is nothing to provision: import "
            "the modules that declare them before the stack is made"
        )


def environment_of(system: IJobSystem) -> dict[str, str]:
    """Return the environment variables that the app reads wherever its jobs run."""
    return app_variables(
        system.app, bucket=system.bucket.bucket_name, account=Stack.of(system).account
    )


def grant_group(
    system: IJobSystem, grantee: iam.IGrantable, group: WorkerGroup | ConsumerGroup
) -> None:
    """Let ``grantee`` run a group's jobs; if these submit any, also submit, follow and cancel.

    Raises:
        UnknownQueue: the group names a queue that the app doesn't have.
    """
    system.grant_work(grantee, selection=group.selection)
    if group.submits:
        system.grant_submit(grantee, unique=True)
        system.grant_follow(grantee)


def add_tags(system: IJobSystem, deployment: Deployment) -> None:
    """Tag the resources, for cost allocation."""
    app = system.app
    for name, value in tags_of(app.topology).items():
        Tags.of(system).add(name, value)
    if deployment.budget_of == "stage":
        Tags.of(system).add(SYSTEM_TAG, service_name(app.name, app.stage))
