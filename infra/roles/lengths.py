"""Policies of roles within the lengths that IAM allows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import jsii
from aws_cdk import Annotations, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct, IValidation

from headgate.jobs.deployment.policy_parts import (
    LONGEST_INLINE,
    MOST_POLICIES,
    Document,
    Length,
    Statement,
    parts,
    written_length,
)

_TOKEN = re.compile(r"\$\{Token\[(AWS\.(?:AccountId|Partition|Region)\.)?[^]]*\]\}")
"""A value that CDK doesn't know yet; most are whole ARNs."""

_LONGEST_PLACE = len("arn:aws-us-gov:sqs:us-gov-east-1:111122223333:")
_LONGEST_NAME = 80  # of a queue
_LONGEST_PART = len("ap-southeast-1")
_SHORTEST_PLACE = len("arn:aws:sqs:us-east-1:111122223333:")
_SHORTEST_ARN = len("arn:aws:s3:::shop")
_SHORTEST_PART = len("aws")
_LEAST = 100
"""The length of an ARN of anything but a queue, of which a role has few."""


def fits_inline(document: iam.PolicyDocument) -> bool:
    """Return whether a role may have a policy inline, beside no other."""
    return _length_with(_LONGEST_NAME)(_read(document)["Statement"]) <= LONGEST_INLINE


def parts_of(
    document: iam.PolicyDocument, longest_name: int = _LONGEST_NAME
) -> Iterator[iam.PolicyDocument]:
    """Yield documents that say the same together, each short enough for a managed policy.

    Args:
        document: the policy.
        longest_name: the length of the longest name of a queue.
    """
    for part in parts(_read(document), _length_with(longest_name)):
        yield iam.PolicyDocument.from_json(part)


def split(policy: iam.ManagedPolicy, role: iam.IRole, longest_name: int) -> None:
    """Move what is too much for a role's managed policy into further ones of the same role.

    They stand below it, so that what waits for it waits for them too, and cdk-nag's
    acknowledgements cover them.

    Args:
        policy: the policy, to which nothing is added any more.
        role: the role.
        longest_name: the length of the longest name of a queue.
    """
    first, *others = parts_of(policy.document, longest_name)
    if not others:
        return
    _resource(policy).policy_document = first
    for number, document in enumerate(others, start=2):
        iam.ManagedPolicy(
            policy,
            str(number),
            description="What the policy above it is too short for",
            document=document,
            roles=[role],
        )
    if (count := 1 + len(others)) > MOST_POLICIES:
        Annotations.of(policy).add_warning_v2(
            "headgate:policies-of-a-role",
            f"the role {role.role_name} gets {count} managed policies, and IAM allows "
            f"{MOST_POLICIES} a role unless the account's quota is raised: give the worker groups "
            "roles of their own, with fewer queues each, or leave task_role out",
        )


def require_short(
    scope: Construct, grantee: iam.IGrantable, queues: Iterable[tuple[str, sqs.IQueue]]
) -> None:
    """Refuse a synthesis in which a grantee's inline policies are too long for any role.

    CDK splits the policies of roles that it makes, and of no others.

    Args:
        scope: the construct that grants.
        grantee: the grantee.
        queues: queues that it may be granted, each with its physical name.
    """
    principal = grantee.grant_principal
    if isinstance(principal, iam.Role) or not hasattr(principal, "node"):
        return
    holder = cast("IConstruct", principal)
    if scope.node.try_find_child(check := f"Lengths-{holder.node.addr}") is None:
        names = {queue.queue_arn: len(name) for name, queue in queues}
        Construct(scope, check).node.add_validation(_ShortEnough(holder, names))


@jsii.implements(IValidation)
class _ShortEnough:
    """CDK's face of `require_short`."""

    def __init__(self, holder: IConstruct, names: Mapping[str, int]) -> None:
        self._holder = holder
        self._names = names

    def validate(self) -> list[str]:
        """Return what is wrong."""
        stack = Stack.of(self._holder)
        known = {
            json.dumps(stack.resolve(arn)): _SHORTEST_PLACE + length
            for arn, length in self._names.items()
        }
        inline = [each for each in self._holder.node.find_all() if isinstance(each, iam.Policy)]
        # Resolved, so that statements are merged where the CDK app has it so.
        documents = [_as_short(stack.resolve(each.document), known) for each in inline]
        length = sum(len(json.dumps(each, separators=(",", ":"))) for each in documents)
        if length <= LONGEST_INLINE:
            return []
        fault = (
            f"the inline policies of {self._holder.node.path} have at least {length} characters, "
            f"and IAM allows {LONGEST_INLINE}: CDK splits those of roles that it makes, so grant "
            "to such a role, or attach to yours what `headgate export terraform` prints"
        )
        return [fault]


def _as_short(value: Any, known: Mapping[str, int]) -> Any:
    """Return a value of a template as short as it may be once its functions are resolved."""
    match value:
        case {"Fn::Join": [between, joined]}:
            return str(between).join(str(_as_short(each, known)) for each in joined)
        case {"Ref": str(name)} if name.startswith("AWS::"):
            return "x" * _SHORTEST_PART
        case dict() if len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref")):
            return "x" * known.get(json.dumps(value), _SHORTEST_ARN)
        case dict():
            return {key: _as_short(each, known) for key, each in value.items()}
        case list():
            return [_as_short(each, known) for each in value]
    return value


def _read(document: iam.PolicyDocument) -> Document:
    read: Document = document.to_json()
    # Groups that share a role are granted much alike.
    distinct = {json.dumps(each, sort_keys=True): each for each in read["Statement"]}
    return {**read, "Statement": list(distinct.values())}


def _length_with(longest_name: int) -> Length:
    """Return a function that tells how long a policy with some statements will be at most."""
    arn = "x" * max(_LEAST, _LONGEST_PLACE + longest_name)
    part = "x" * _LONGEST_PART

    def length(statements: Sequence[Statement]) -> int:
        text = json.dumps(list(statements))
        return written_length(json.loads(_TOKEN.sub(lambda token: part if token[1] else arn, text)))

    return length


def _resource(policy: iam.ManagedPolicy) -> iam.CfnManagedPolicy:
    found = policy.node.default_child
    assert isinstance(found, iam.CfnManagedPolicy)  # noqa: S101 - CDK's own structure; narrows the type
    return found
