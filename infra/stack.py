"""A stack with an app's whole system."""

from __future__ import annotations

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_kms as kms
from constructs import Construct

from headgate.infra.data.existing_resources import ExistingResources
from headgate.infra.job_system import JobSystem
from headgate.infra.outputs import add_outputs
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment


class HeadgateStack(Stack):
    """A stack of one `JobSystem`; ``properties`` are those of CDK's `Stack`."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: App,
        deployment: Deployment | None = None,
        image: ecs.ContainerImage | None = None,
        vpc: ec2.IVpc | None = None,
        existing: ExistingResources | None = None,
        app_path: str | None = None,
        encryption_key: kms.IKey | None = None,
        **properties: Any,
    ) -> None:
        # With indentation, an app of 40 queues and long names exceeds CloudFormation's megabyte.
        properties.setdefault("suppress_template_indentation", True)
        if deployment is not None and deployment.protected:
            properties.setdefault("termination_protection", True)
        super().__init__(scope, construct_id, **properties)
        self.jobs = JobSystem(
            self,
            "Jobs",
            app=app,
            deployment=deployment,
            image=image,
            vpc=vpc,
            existing=existing,
            app_path=app_path,
            encryption_key=encryption_key,
        )
        add_outputs(self, self.jobs)
