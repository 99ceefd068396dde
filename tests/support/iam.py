"""IAM's rules for requests within one account.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html

Left out, because no template here has them: permissions boundaries, session policies, and the
policies of an organization.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any

from tests.support.cloudformation import ACCOUNT, Resolved, arn_of

Statement = Mapping[str, Any]

_ROOT = f"arn:aws:iam::{ACCOUNT}:root"
_ROLE = "AWS::IAM::Role"


class Decision(Enum):
    """IAM's decision about a request."""

    ALLOWED = "allowed"
    DENIED = "denied by a statement"
    NOT_ALLOWED = "allowed by no statement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of a role, or of a service, such as ``events.amazonaws.com``."""

    principal: str
    """The role's ARN, or the service."""
    action: str
    resource: str
    context: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """The values of condition keys, several for those that have several; TLS is implied."""

    def values(self, key: str) -> Sequence[str]:
        """Return the values of a condition key; none if the request doesn't have it."""
        own: dict[str, str | Sequence[str]] = {"aws:securetransport": "true"} | {
            name.lower(): value for name, value in self.context.items()
        }
        return _listed(own.get(key.lower(), ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """All policies that decide about requests to one account."""

    identity: Mapping[str, Sequence[Statement]]
    """The statements of a role's policies, by the role's ARN."""
    resource: Mapping[str, Sequence[Statement]]
    """The statements of a resource's own policy, by its ARN."""

    @classmethod
    def of(cls, template: Resolved) -> Policies:
        """Return the policies of a template.

        Raises:
            ValueError: a role has a policy that is not in the template.
        """
        return cls(identity=_of_roles(template), resource=_of_resources(template))

    def decide(self, request: Request) -> Decision:
        """Return IAM's decision about a request."""
        own = self.resource.get(_owner(request.resource), ())
        of_resource = [each for each in own if _fits(each, request) and _is_for(each, request)]
        of_role = [
            each for each in self.identity.get(request.principal, ()) if _fits(each, request)
        ]
        effects = {each["Effect"] for each in (*of_resource, *of_role)}
        if "Deny" in effects:
            return Decision.DENIED
        if _allows(of_resource, of_role, request):
            return Decision.ALLOWED
        return Decision.NOT_ALLOWED

    def allows(
        self, principal: str, action: str, resource: str, **context: str | Sequence[str]
    ) -> bool:
        """Return True if a request is allowed; ``__`` in condition keys stands for ``:``."""
        keys = {name.replace("__", ":"): value for name, value in context.items()}
        request = Request(principal=principal, action=action, resource=resource, context=keys)
        return self.decide(request) is Decision.ALLOWED

    def may_assume(self, service: str, role: str, **context: str) -> bool:
        """Return True if a service may assume a role."""
        return self.allows(service, "sts:AssumeRole", role, **context)


def _allows(
    of_resource: Sequence[Statement], of_role: Sequence[Statement], request: Request
) -> bool:
    # A policy that names the account delegates the decision to the account's own policies. A key
    # needs that; other resources don't.
    # https://docs.aws.amazon.com/kms/latest/developerguide/key-policies.html
    named = [each for each in of_resource if _ROOT not in _principals(each)]
    if named:
        return True
    return bool(of_role) and (not request.action.startswith("kms:") or bool(of_resource))


def _owner(resource: str) -> str:
    """Return the ARN whose policy applies to a resource: for an object, the bucket's."""
    return resource.split("/", 1)[0] if resource.startswith("arn:aws:s3:::") else resource


def _fits(statement: Statement, request: Request) -> bool:
    return (
        _one_fits(statement, "Action", request.action.lower(), lower=True)
        and _one_fits(statement, "Resource", request.resource)
        and all(
            _holds(operator, key, _listed(values), request)
            for operator, keys in statement.get("Condition", {}).items()
            for key, values in keys.items()
        )
    )


def _one_fits(statement: Statement, element: str, value: str, *, lower: bool = False) -> bool:
    patterns = [str(each) for each in _listed(statement.get(element, ()))]
    excluded = [str(each) for each in _listed(statement.get(f"Not{element}", ()))]
    if lower:
        patterns, excluded = [each.lower() for each in patterns], [e.lower() for e in excluded]
    if excluded:
        return not any(_like(each, value) for each in excluded)
    # A trust policy has no resource: it is the role itself.
    return element not in statement or any(_like(each, value) for each in patterns)


def _holds(operator: str, key: str, wanted: Sequence[Any], request: Request) -> bool:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html"""
    values = request.values(key)
    texts = [str(each) for each in wanted]
    if operator == "Null":
        return texts == [str(not values).lower()]
    if operator.startswith("ForAllValues:"):  # so also of a request without the key
        single = operator.removeprefix("ForAllValues:")
        return all(_compares(single, value, texts) for value in values)
    if len(values) > 1:
        raise ValueError(f"{key} has several values, which {operator} does not compare")
    base, optional = operator.removesuffix("IfExists"), operator.endswith("IfExists")
    if not values:
        return optional or "Not" in base
    return _compares(base, values[0], texts)


def _compares(operator: str, value: str, texts: Sequence[str]) -> bool:
    match operator:
        case "StringEquals":
            return value in texts
        case "StringNotEquals":
            return value not in texts
        case "Bool":
            return value.lower() in [each.lower() for each in texts]
        case "StringLike" | "ArnLike" | "ArnEquals":  # ArnEquals behaves as ArnLike
            return any(_like(each, value) for each in texts)
    raise ValueError(f"the condition operator {operator} is not known here")


def _is_for(statement: Statement, request: Request) -> bool:
    return bool(_principals(statement) & {"*", _ROOT, request.principal})


def _principals(statement: Statement) -> set[str]:
    principal = statement.get("Principal", {})
    if isinstance(principal, str):
        return {principal}
    return {str(each) for values in principal.values() for each in _listed(values)}


@cache
def _pattern(text: str) -> re.Pattern[str]:
    escaped = re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(escaped, re.DOTALL)


def _like(pattern: str, value: str) -> bool:
    return _pattern(pattern).fullmatch(value) is not None


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


# --- the policies of a template ------------------------------------------------------------------


def _of_roles(template: Resolved) -> dict[str, list[Statement]]:
    found: dict[str, list[Statement]] = {}
    by_name: dict[str, str] = {}
    for logical_id, role in template.of_type(_ROLE).items():
        name = role.get("RoleName", logical_id)
        arn = by_name[name] = arn_of(_ROLE, name)
        if managed := role.get("ManagedPolicyArns"):
            raise ValueError(f"the role {name} has policies from elsewhere: {managed}")
        found[arn] = _statements(each["PolicyDocument"] for each in role.get("Policies", ()))
    for policy in template.of_type("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy").values():
        for name in policy.get("Roles", ()):
            found[by_name[name]] += _statements([policy["PolicyDocument"]])
    return found


def _of_resources(template: Resolved) -> dict[str, list[Statement]]:
    found: dict[str, list[Statement]] = {}
    for arn, document in (*_attached(template), *_own(template)):
        found.setdefault(arn, []).extend(_statements([document]))
    return found


def _attached(template: Resolved) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the policies that are resources of their own."""
    for policy in template.of_type("AWS::SQS::QueuePolicy").values():
        for url in policy["Queues"]:
            yield arn_of("AWS::SQS::Queue", url.rpartition("/")[2]), policy["PolicyDocument"]
    for policy in template.of_type("AWS::S3::BucketPolicy").values():
        yield arn_of("AWS::S3::Bucket", policy["Bucket"]), policy["PolicyDocument"]
    for policy in template.of_type("AWS::SNS::TopicPolicy").values():
        for topic in policy["Topics"]:
            yield topic, policy["PolicyDocument"]
    for permission in template.of_type("AWS::Lambda::Permission").values():
        function = str(permission["FunctionName"])
        if not function.startswith("arn:"):
            function = arn_of("AWS::Lambda::Function", function)
        yield function, {"Statement": [_invocation(permission, function)]}


def _own(template: Resolved) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the policies that are a property of the resource they protect."""
    for key_id, key in template.of_type("AWS::KMS::Key").items():
        yield arn_of("AWS::KMS::Key", key_id), key["KeyPolicy"]
    for logical_id, role in template.of_type(_ROLE).items():
        yield arn_of(_ROLE, role.get("RoleName", logical_id)), role["AssumeRolePolicyDocument"]


def _invocation(permission: Mapping[str, Any], function: str) -> Statement:
    """Return a Lambda permission as a statement of the function's policy."""
    equals = {"AWS:SourceAccount": permission.get("SourceAccount")}
    like = {"AWS:SourceArn": permission.get("SourceArn")}
    return {
        "Effect": "Allow",
        "Action": permission["Action"],
        "Resource": function,
        "Principal": {"Service": permission["Principal"]},
        "Condition": {
            "StringEquals": {key: value for key, value in equals.items() if value},
            "ArnLike": {key: value for key, value in like.items() if value},
        },
    }


def _statements(documents: Iterable[Mapping[str, Any]]) -> list[Statement]:
    return [each for document in documents for each in _listed(document["Statement"])]
