"""A role that exists, and what a system lets it do."""

from __future__ import annotations

from aws_cdk import Stack, Token
from aws_cdk import aws_iam as iam
from constructs import Construct

from headgate.infra.roles.lengths import split
from headgate.jobs.core.naming import role_in
from headgate.jobs.core.topology import Topology


class ExistingRole(Construct):
    """A role that something else created, with a managed policy of its system's own.

    Systems of other stages and regions may share the role, so nothing that it is given has a name
    that theirs could have too: `iam:PutRolePolicy` replaces by name, and what is deleted with one
    stack would be missing in the other. CloudFormation names the managed policy.
    https://github.com/aws/aws-cdk/issues/16074

    Args:
        arn: the role's ARN.
        topology: the topology of the app whose jobs it runs.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, arn: str, topology: Topology
    ) -> None:
        super().__init__(scope, construct_id)
        self._topology = topology
        system, region = topology.schedule_group, Stack.of(self).region
        self.role = iam.Role.from_role_arn(
            self,
            "Role",
            arn,
            # An inline policy, for what a CDK app of one's own adds. CDK takes no token here.
            default_policy_name=system if Token.is_unresolved(region) else role_in(system, region),
        )
        """The role."""
        self.policy = iam.ManagedPolicy(
            self,
            "Policy",
            description=f"What the workers of {system} take",
            roles=[self.role],
        )
        """The policy, to grant to."""

    def split_policy(self) -> None:
        """Split the policy where it is too long for IAM; after the last grant to it."""
        longest = max(len(spec.dlq_name) for spec in self._topology.queues)
        split(self.policy, self.role, longest)
