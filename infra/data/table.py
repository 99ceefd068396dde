"""The table of a topology: the jobs' records, and items that need conditional writes."""

from __future__ import annotations

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from headgate.infra.data.existing_resources import own_key, refer_to_table
from headgate.jobs.aws.descriptions import EXPIRY, LINES, POINT_IN_TIME_RECOVERY, PROJECTED
from headgate.jobs.core.topology import Topology


class Records(Construct):
    """One table, with the keys and expiry that `jobs.aws.provision` gives it; billed per request.

    It can be restored to any second of the last 35 days. One that something else created is only
    referred to.

    Args:
        topology: the topology.
        removal_policy: applies when it is removed from its stack, or the stack is deleted.
        protected: whether it can't be deleted at all; CloudFormation can't roll back its creation.
        existing: the table, if something else created it and a construct is at hand.
        key: the key that encrypts it; None: one that AWS owns.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        topology: Topology,
        removal_policy: RemovalPolicy,
        protected: bool = False,
        existing: dynamodb.ITableV2 | None = None,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.table = (
            self._made(topology, removal_policy, protected=protected, key=key)
            if topology.existing.table is None
            else existing or self._referred(topology)
        )
        """The table."""

    def _referred(self, topology: Topology) -> dynamodb.ITableV2:
        stack, key = Stack.of(self), own_key(self, "TableKey", topology.existing.table_key)
        return refer_to_table(self, topology, stack.account, stack.region, key)

    def _made(
        self,
        topology: Topology,
        removal_policy: RemovalPolicy,
        *,
        protected: bool,
        key: kms.IKey | None,
    ) -> dynamodb.ITableV2:
        made = dynamodb.TableV2(
            self,
            "Table",
            table_name=topology.table_name,
            partition_key=_text("pk"),
            sort_key=_text("sk"),
            global_secondary_indexes=[
                dynamodb.GlobalSecondaryIndexPropsV2(
                    index_name=LINES,
                    partition_key=_text("list"),
                    sort_key=_text("place"),
                    projection_type=dynamodb.ProjectionType.INCLUDE,
                    non_key_attributes=list(PROJECTED),
                )
            ],
            billing=dynamodb.Billing.on_demand(),
            time_to_live_attribute=EXPIRY,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=POINT_IN_TIME_RECOVERY
            ),
            deletion_protection=protected,
            removal_policy=removal_policy,
        )
        return made if key is None else self._encrypted(made, key)

    def _encrypted(self, table: dynamodb.TableV2, key: kms.IKey) -> dynamodb.ITableV2:
        """Return the table encrypted with that key, such that grants know the key.

        CDK's own way rejects a stack without a fixed region.
        """
        resource = table.node.default_child
        assert isinstance(resource, dynamodb.CfnGlobalTable)  # noqa: S101 - CDK's own structure
        resource.sse_specification = dynamodb.CfnGlobalTable.SSESpecificationProperty(
            sse_enabled=True, sse_type="KMS"
        )
        resource.add_property_override(
            "Replicas.0.SSESpecification", {"KMSMasterKeyId": key.key_arn}
        )
        return dynamodb.TableV2.from_table_attributes(
            self, "Encrypted", table_name=table.table_name, encryption_key=key
        )


def _text(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
