"""The policies of the network's endpoints, for `Hardening.endpoint_policies`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from headgate.jobs.core.existing.arns import owner_of
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import KEY_ENDPOINT, SIGNING_ENDPOINT, Deployment

Owners = Mapping[str, Sequence[str]]
"""Accounts that own something which the workers use, by the name of the service's endpoint."""


def owners_of(app: App, deployment: Deployment) -> Owners:
    """Return the accounts in the ARNs of queues, secrets and keys that something else created."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for service, name in _named(app, deployment):
        if (owner := owner_of(name)) is not None:
            found[service].add(owner)
    return {service: sorted(accounts) for service, accounts in found.items()}


def _named(app: App, deployment: Deployment) -> Iterator[tuple[str, str]]:
    for spec in app.topology.queues:
        yield "sqs", spec.name
        yield "sqs", spec.dlq_name
    for secrets in (deployment.secrets, *(group.secrets for group in deployment.workers)):
        for source in secrets.values():
            yield SIGNING_ENDPOINT, source
    if app.signing is not None and app.signing.secret is not None:
        yield SIGNING_ENDPOINT, app.signing.secret
    for key in app.encryption.keys if app.encryption is not None else ():
        yield KEY_ENDPOINT, key


def confine(endpoints: Sequence[ec2.VpcEndpoint], owners: Owners) -> None:
    """Admit principals of this account alone, and resources of it and of their named owners.

    Besides these, S3's endpoint admits the layers of images: ECR hands them out by signed
    addresses, whose principal is its own.
    https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html
    """
    for endpoint in endpoints:
        account, others = Stack.of(endpoint).account, owners.get(endpoint.node.id, ())
        endpoint.add_to_policy(
            iam.PolicyStatement(
                principals=[iam.AnyPrincipal()],
                actions=["*"],
                resources=["*"],
                conditions={
                    "StringEquals": {"aws:PrincipalAccount": account},
                    "StringEqualsIfExists": {
                        "aws:ResourceAccount": [account, *others] if others else account
                    },
                },
            )
        )
        if endpoint.node.id == "s3":
            endpoint.add_to_policy(_layers(Stack.of(endpoint)))


def _layers(stack: Stack) -> iam.PolicyStatement:
    layers = stack.format_arn(
        service="s3",
        region="",
        account="",
        resource=f"prod-{stack.region}-starport-layer-bucket",
        resource_name="*",
    )
    return iam.PolicyStatement(
        principals=[iam.AnyPrincipal()], actions=["s3:GetObject"], resources=[layers]
    )
