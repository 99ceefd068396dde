"""The templates of deployed stacks, from CloudFormation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Unpack

from botocore.exceptions import ClientError

from headgate.jobs.aws.connections.clients import Clients, caller_identity, client_of
from headgate.jobs.aws.connections.connection import Access, Connection
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.core.immediate import drive, driven
from headgate.jobs.errors import ConfigurationError

_MISSING = "ValidationError"
"""The code of a stack that doesn't exist.
https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_GetTemplate.html"""


class CloudFormationStacks:
    """Deployed stacks, on boto3. It opens with its first call.

    Args:
        access: As in `Connection`; the session is one of boto3.
    """

    def __init__(self, **access: Unpack[Access]) -> None:
        self._clients = Clients(Connection(pool=1, **access))
        self._client = client_of(self._clients, "cloudformation")
        self.close = driven(self._client.stop)

    def template(self, stack: str) -> Mapping[str, Any] | None:
        """Return the template that a stack was last deployed with; None if there is no such stack.

        Raises:
            ConfigurationError: it is not in JSON, so CDK has not made it.
            TransportError: CloudFormation could not be asked, or refused.
        """
        client = drive(self._client.opened())
        with naming("cloudformation:GetTemplate", stack):
            try:
                answer = drive(client.get_template(StackName=stack))
            except ClientError as error:
                if error.response["Error"]["Code"] == _MISSING:
                    return None
                raise
        return _parsed(stack, answer.get("TemplateBody"))

    def pseudo_parameters(self) -> Mapping[str, str]:
        """Return what ``AWS::AccountId`` and the like stand for in the templates of these stacks.

        https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/pseudo-parameter-reference.html

        Raises:
            TransportError: STS could not be asked, or refused.
        """
        client = drive(self._client.opened())
        return {
            "AWS::AccountId": drive(caller_identity(self._clients, "the stack"))["Account"],
            "AWS::Partition": client.meta.partition,
            "AWS::Region": client.meta.region_name,
        }


def _parsed(stack: str, body: Any) -> Mapping[str, Any]:
    try:
        found = json.loads(body) if isinstance(body, str) else body
    except ValueError:
        found = None
    if not isinstance(found, Mapping):
        raise ConfigurationError(
            f"the stack {stack!r} has a template that is not JSON: CDK has not deployed it, so "
            "name the stack of this app with --stack"
        )
    return found
