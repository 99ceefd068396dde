"""The source of an export: an app, its deployment, and its place on AWS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headgate.infra.fargate.worker_command import worker_variables
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.variables import app_variables
from headgate.jobs.deployment.groups.worker_group import HEALTH_HOSTS, WorkerGroup
from headgate.jobs.deployment.resource_names import worker_service_name
from headgate.jobs.deployment.serving import groups_elsewhere
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import light_dataclass

_LONGEST_NAME = 63
"""Of a label's value in Kubernetes, and of a service's in DNS."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An app's workers in one account and region, wherever they run there.

    Raises:
        ConfigurationError: there are none, as functions run all jobs.
    """

    app: App
    app_path: str
    """The app's ``module:attribute`` in the image."""
    deployment: Deployment
    account: str
    region: str

    def __post_init__(self) -> None:
        if not self.groups:
            raise ConfigurationError(
                f"functions run all jobs of {self.name}, and only CDK deploys those: there are no "
                'workers to export. Declare some as "workers" in cdk.json'
            )

    @property
    def name(self) -> str:
        """The app's name, with its stage's if any."""
        return self.app.topology.schedule_group

    @property
    def groups(self) -> Sequence[WorkerGroup]:
        """The worker groups."""
        return groups_elsewhere(self.deployment)

    def service(self, group: WorkerGroup) -> str:
        """Return the name of a group's workers, which is that of its service on ECS.

        Raises:
            ConfigurationError: it is longer than Kubernetes and DNS allow.
        """
        found = worker_service_name(self.app.topology, group.name)
        if len(found) > _LONGEST_NAME:
            raise ConfigurationError(
                f"the name {found!r} has {len(found)} characters; labels and services may have "
                f"{_LONGEST_NAME}: shorten the name of the app, the stage or the group"
            )
        return found

    def variables(self, group: WorkerGroup) -> Mapping[str, str]:
        """Return the environment variables of a group's workers, as ECS sets them, and the region.

        Secrets are not among them.
        """
        bucket = self.app.topology.bucket.name_in(self.account, self.region)
        return {
            "AWS_REGION": self.region,  # which ECS sets by itself
            **self.deployment.environment_of(group),
            **app_variables(self.app, bucket=bucket, account=self.account),
            **worker_variables(group, self.app_path),
        }

    def secrets(self, group: WorkerGroup) -> Mapping[str, str]:
        """Return the sources of a group's secrets, by the variables that hold them."""
        return self.deployment.secrets_of(group)


def reachable(group: WorkerGroup) -> WorkerGroup:
    """Return a group that serves its health and metrics to its container's network."""
    return replace(group, health_host=HEALTH_HOSTS[1])
