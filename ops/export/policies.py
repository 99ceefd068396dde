"""IAM's policies in a known account and region, as documents for roles that are made elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headgate.jobs.core.existing.arns import is_arn
from headgate.jobs.core.naming import role_in
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.policy_parts import Document, document_of, parts
from headgate.jobs.errors import ConfigurationError
from headgate.ops.export.artifacts import Artifact
from headgate.ops.export.cdk import synthesized_policies
from headgate.ops.export.target import Target

_PARTITIONS = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}


def partition_of(region: str) -> str:
    """Return the partition of a region, which its ARNs begin with."""
    found = (name for prefix, name in _PARTITIONS.items() if region.startswith(prefix))
    return next(found, "aws")


def policy_files(target: Target) -> Iterator[Artifact]:
    """Yield the policies of the roles that Kubernetes needs: each worker group's, and KEDA's.

    Raises:
        ConfigurationError: CDK is not installed, or a policy can't be as short as AWS demands.
    """
    documents = synthesized_policies(
        target.app, target.deployment, account=target.account, region=target.region
    )
    for group in target.groups:
        name = role_in(f"{target.name}-work-{group.name}", target.region)
        whole = resolved(documents[name], partition_of(target.region))
        yield from _files(target.service(group), whole)
    yield from _files(f"{target.name}-keda", keda_document(target))


def keda_document(target: Target) -> Document:
    """Return the policy by which KEDA's operator counts the jobs of all worker groups."""
    counted = {arn for group in target.groups for arn in _arns(target, group)}
    return document_of(
        [
            {
                "Effect": "Allow",
                "Action": "sqs:GetQueueAttributes",
                "Resource": sorted(counted),
            }
        ]
    )


def resolved(value: Any, partition: str) -> Any:
    """Return a value of a template without its functions, of which only these are known.

    Raises:
        ConfigurationError: another one is left.
    """
    match value:
        case {"Ref": "AWS::Partition"}:
            return partition
        case {"Fn::Join": [between, parts]}:
            return str(between).join(str(resolved(part, partition)) for part in parts)
        case {"Ref": _} | {"Fn::GetAtt": _}:
            raise ConfigurationError(f"a policy refers to {value}, which is known in a stack alone")
        case dict():
            return {key: resolved(each, partition) for key, each in value.items()}
        case list():
            return [resolved(each, partition) for each in value]
    return value


def _files(name: str, document: Document) -> Iterator[Artifact]:
    """Yield a policy's file; several if it is too long for one, with numbers from the second on."""
    for at, part in enumerate(parts(document), start=1):
        number = f"-{at}" if at > 1 else ""
        text = json.dumps(part, indent=2)
        yield Artifact.of_text(f"{name}-policy{number}.json", f"{text}\n")


def _arns(target: Target, group: WorkerGroup) -> Iterator[str]:
    place = f"arn:{partition_of(target.region)}:sqs:{target.region}:{target.account}"
    for queue in group.selection.of(target.app.topology):
        yield queue.name if is_arn(queue.name) else f"{place}:{queue.name}"
