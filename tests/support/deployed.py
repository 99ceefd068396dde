"""CloudFormation stacks on MiniStack, and the steps of ``cdk`` around them.

``cdk bootstrap`` makes a bucket and a version number; ``cdk deploy`` puts the assets into the
bucket and hands the template to CloudFormation.
https://docs.aws.amazon.com/cdk/v2/guide/deploy.html
"""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3

from tests.support.deployable import Template
from tests.support.environment import REGION
from tests.support.journal import GENEROUS_S

_VERSION = "/cdk-bootstrap/hnb659fds/version"
_LEAST_VERSION = "6"
"""The version that templates of CDK's default synthesizer require."""

_LOOK_S = 0.05
_IMPORT = "existing"


class DeploymentFailed(Exception):
    """A stack did not reach the expected state; the message names the failed resources and why."""


class Cloud:
    """The clients of one MiniStack in a region, and its account."""

    def __init__(self, endpoint_url: str, region: str = REGION) -> None:
        self.endpoint_url = endpoint_url
        self.region = region
        self._owned = ExitStack()
        self._clients: dict[str, Any] = {}
        self.account: str = self.client("sts").get_caller_identity()["Account"]

    def client(self, service: str) -> Any:
        """Return boto3's client of a service, made once per service."""
        if service not in self._clients:
            session = boto3.session.Session(region_name=self.region)
            made = session.client(service, endpoint_url=self.endpoint_url)  # type: ignore[call-overload]  # whichever
            self._owned.callback(made.close)
            self._clients[service] = made
        return self._clients[service]

    def close(self) -> None:
        """Close the clients."""
        self._owned.close()


@contextmanager
def cloud_at(endpoint_url: str, region: str = REGION) -> Iterator[Cloud]:
    """Yield the clients of a server; the environment must hold test credentials."""
    cloud = Cloud(endpoint_url, region)
    try:
        yield cloud
    finally:
        cloud.close()


class Stack:
    """A CloudFormation stack. Each method returns once CloudFormation has finished.

    Raises:
        ClientError: from each, when CloudFormation refuses the request.
        DeploymentFailed: from each, when the operation failed.
    """

    def __init__(self, cloud: Cloud, name: str) -> None:
        self.name = name
        self._cloud = cloud
        self._formation = cloud.client("cloudformation")
        self._id = name

    def create(self, template: Template) -> None:
        """Create everything in the template."""
        self._id = self._formation.create_stack(**self._request(template))["StackId"]
        self._ends_with("CREATE_COMPLETE")

    def adopt(self, template: Template, identifiers: Mapping[str, Mapping[str, str]]) -> None:
        """Create the stack of existing resources, as ``cdk import`` does.

        Args:
            template: the template, with these resources and no others.
            identifiers: by logical id, the property that identifies a resource, and its value.
        """
        imported = [
            {
                "ResourceType": template["Resources"][name]["Type"],
                "LogicalResourceId": name,
                "ResourceIdentifier": dict(identifier),
            }
            for name, identifier in identifiers.items()
        ]
        made = self._formation.create_change_set(
            ChangeSetName=_IMPORT,
            ChangeSetType="IMPORT",
            ResourcesToImport=imported,
            **self._request(template),
        )
        self._id, changes = made["StackId"], made["Id"]
        self._formation.get_waiter("change_set_create_complete").wait(
            ChangeSetName=changes, WaiterConfig={"Delay": 1}
        )
        self._formation.execute_change_set(ChangeSetName=changes)
        self._ends_with("IMPORT_COMPLETE")

    def update(self, template: Template) -> None:
        """Update the stack to the template; an update without changes is refused."""
        self._formation.update_stack(**self._request(template))
        self._ends_with("UPDATE_COMPLETE")

    def delete(self) -> None:
        """Delete everything but what the template retains."""
        self._formation.delete_stack(StackName=self._id)
        self._ends_with("DELETE_COMPLETE")

    def resources(self) -> Mapping[str, str]:
        """Return the stack's resources: physical ids by logical ones."""
        pages = self._formation.get_paginator("list_stack_resources").paginate(StackName=self._id)
        return {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for page in pages
            for each in page["StackResourceSummaries"]
        }

    def _request(self, template: Template) -> dict[str, Any]:
        # By way of the bucket, as `cdk` does: a large template does not fit into a request.
        key, bucket = f"{self.name}.template.json", _bucket(self._cloud)
        body = json.dumps(template)
        self._cloud.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
        return {
            "StackName": self.name,
            "TemplateURL": f"https://s3.{self._cloud.region}.amazonaws.com/{bucket}/{key}",
            "Capabilities": ["CAPABILITY_NAMED_IAM"],
        }

    def _ends_with(self, wanted: str) -> None:
        deadline = time.monotonic() + GENEROUS_S
        while (status := self._status()).endswith("IN_PROGRESS") and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        if status != wanted:
            raise DeploymentFailed(f"{self.name} is {status}: {self._failures()}")

    def _status(self) -> str:
        # By its id: a deleted stack can't be found by its name.
        [found] = self._formation.describe_stacks(StackName=self._id)["Stacks"]
        return str(found["StackStatus"])

    def _failures(self) -> str:
        events = self._formation.describe_stack_events(StackName=self._id)["StackEvents"]
        return "; ".join(
            f"{each['LogicalResourceId']} ({each['ResourceType']}): "
            f"{each.get('ResourceStatusReason', 'no reason given')}"
            for each in reversed(events)
            if each["ResourceStatus"].endswith("FAILED")
        )


def bootstrap(cloud: Cloud) -> None:
    """Create what ``cdk bootstrap`` does, as far as a deployment needs it."""
    elsewhere = {"CreateBucketConfiguration": {"LocationConstraint": cloud.region}}
    placed = {} if cloud.region == REGION else elsewhere
    cloud.client("s3").create_bucket(Bucket=_bucket(cloud), **placed)
    cloud.client("ssm").put_parameter(
        Name=_VERSION, Value=_LEAST_VERSION, Type="String", Overwrite=True
    )


def publish(cloud: Cloud, assembly: Path, stack: str) -> None:
    """Upload a stack's files to the bucket, without container images: nothing runs containers here.

    Args:
        assembly: the directory written by ``cdk synth``.
    """
    manifest = json.loads((assembly / f"{stack}.assets.json").read_text())
    for asset in manifest["files"].values():
        source = assembly / asset["source"]["path"]
        zipped = asset["source"]["packaging"] == "zip"
        body = _zipped(source) if zipped else source.read_bytes()
        for destination in asset["destinations"].values():
            cloud.client("s3").put_object(
                Bucket=_bucket(cloud), Key=destination["objectKey"], Body=body
            )


def template_in(assembly: Path, stack: str) -> Template:
    """Return a stack's synthesized template."""
    read: Template = json.loads((assembly / f"{stack}.template.json").read_text())
    return read


def _bucket(cloud: Cloud) -> str:
    return f"cdk-hnb659fds-assets-{cloud.account}-{cloud.region}"


def _zipped(directory: Path) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(directory))
    return file.getvalue()
