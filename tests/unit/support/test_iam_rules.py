"""The tests' own IAM decides as documented by AWS, and resolves templates as AWS does.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic_policy-eval-basics.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.cloudformation import ACCOUNT, Resolved, resolve
from tests.support.iam import Decision, Policies, Request

ROLE = f"arn:aws:iam::{ACCOUNT}:role/worker"
QUEUE = f"arn:aws:sqs:us-east-1:{ACCOUNT}:jobs"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/1"
ROOT = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
BY_ROLE = {"AWS": ROLE}
TLS_ONLY = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "sqs:*",
    "Resource": QUEUE,
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}


def allow(action: str = "sqs:SendMessage", resource: str = QUEUE, **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def deny(**more: Any) -> dict[str, Any]:
    return allow(**more) | {"Effect": "Deny"}


def decided(
    *statements: Mapping[str, Any],
    of_resource: tuple[Mapping[str, Any], ...] = (),
    action: str = "sqs:SendMessage",
    resource: str = QUEUE,
    principal: str = ROLE,
    **context: str,
) -> Decision:
    policies = Policies(identity={ROLE: statements}, resource={resource: of_resource})
    keys = {name.replace("__", ":"): value for name, value in context.items()}
    return policies.decide(
        Request(principal=principal, action=action, resource=resource, context=keys)
    )


def test_what_nothing_allows_is_not_allowed() -> None:
    assert decided() is Decision.NOT_ALLOWED
    assert decided(allow(action="sqs:ReceiveMessage")) is Decision.NOT_ALLOWED
    assert decided(allow(resource=f"{QUEUE}-dlq")) is Decision.NOT_ALLOWED


def test_a_denial_wins_over_everything_that_allows() -> None:
    assert decided(allow(), deny()) is Decision.DENIED
    assert decided(allow(), of_resource=(deny(Principal="*"),)) is Decision.DENIED
    assert decided(deny(), of_resource=(allow(Principal=BY_ROLE),)) is Decision.DENIED


def test_within_an_account_the_role_or_the_resource_may_allow() -> None:
    assert decided(allow()) is Decision.ALLOWED
    assert decided(of_resource=(allow(Principal=BY_ROLE),)) is Decision.ALLOWED
    assert decided(of_resource=(allow(Principal={"AWS": "*"}),)) is Decision.ALLOWED


def test_a_resource_that_names_the_account_leaves_it_to_the_role() -> None:
    assert decided(of_resource=(allow(Principal=ROOT),)) is Decision.NOT_ALLOWED
    assert decided(allow(), of_resource=(allow(Principal=ROOT),)) is Decision.ALLOWED


def test_a_key_that_does_not_name_the_account_is_not_a_roles_to_use() -> None:
    use = allow(action="kms:Decrypt", resource=KEY)
    delegates = allow(action="kms:*", resource="*", Principal=ROOT)
    assert decided(use, action="kms:Decrypt", resource=KEY) is Decision.NOT_ALLOWED
    allowed = decided(use, of_resource=(delegates,), action="kms:Decrypt", resource=KEY)
    assert allowed is Decision.ALLOWED


def test_what_is_for_another_principal_counts_for_nothing() -> None:
    service = {"Service": "events.amazonaws.com"}
    assert decided(of_resource=(allow(Principal=service),)) is Decision.NOT_ALLOWED
    by_service = decided(of_resource=(allow(Principal=service),), principal="events.amazonaws.com")
    assert by_service is Decision.ALLOWED


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        ("sqs:*", QUEUE, True),
        ("SQS:sendmessage", QUEUE, True),  # actions are case-insensitive
        ("sqs:Send*", QUEUE, True),
        ("sqs:Send?essage", QUEUE, True),
        ("*", "*", True),
        ("sqs:SendMessage", f"arn:aws:sqs:us-east-1:{ACCOUNT}:*", True),
        ("sqs:SendMessage", "arn:aws:sqs:*:jobs", True),  # * matches colons
        ("sqs:SendMessage", QUEUE.upper(), False),  # resources are case-sensitive
        ("sqs:SendMessage", QUEUE[:-1], False),
        ("sqs:Send", QUEUE, False),
    ],
)
def test_wildcards(action: str, resource: str, allowed: bool) -> None:
    assert (decided(allow(action, resource)) is Decision.ALLOWED) is allowed


def test_everything_but_what_is_named() -> None:
    everything_else = {"Effect": "Allow", "NotAction": "sqs:Delete*", "Resource": "*"}
    assert decided(everything_else) is Decision.ALLOWED
    assert decided(everything_else, action="sqs:DeleteQueue") is Decision.NOT_ALLOWED


@pytest.mark.parametrize(
    ("operator", "wanted", "value", "holds"),
    [
        ("StringEquals", "a", "a", True),
        ("StringEquals", ["b", "a"], "a", True),  # one of several is enough
        ("StringEquals", "a*", "ab", False),
        ("StringEquals", "a", None, False),
        ("StringEqualsIfExists", "a", None, True),
        ("StringEqualsIfExists", "a", "b", False),
        ("StringNotEquals", "a", "b", True),
        ("StringNotEquals", "a", None, True),
        ("StringLike", "a*", "ab", True),
        ("ArnLike", "arn:aws:events:*:rule/x", "arn:aws:events:us-east-1:1:rule/x", True),
        ("ArnEquals", "arn:aws:events:*:rule/x", "arn:aws:events:us-east-1:1:rule/y", False),
        ("Bool", "true", "True", True),
        ("Bool", "true", None, False),
    ],
)
def test_condition_operators(operator: str, wanted: Any, value: str | None, holds: bool) -> None:
    statement = allow(Condition={operator: {"aws:SourceArn": wanted}})
    context = {} if value is None else {"AWS:sourcearn": value}  # keys are case-insensitive
    policies = Policies(identity={ROLE: [statement]}, resource={})
    asked = Request(principal=ROLE, action="sqs:SendMessage", resource=QUEUE, context=context)
    assert (policies.decide(asked) is Decision.ALLOWED) is holds


def test_all_conditions_have_to_hold() -> None:
    both = {"StringEquals": {"aws:SourceAccount": "1"}, "ArnLike": {"aws:SourceArn": "*"}}
    assert decided(allow(Condition=both), aws__SourceAccount="1") is Decision.NOT_ALLOWED


def test_a_condition_that_is_not_known_here_is_not_passed_over() -> None:
    with pytest.raises(ValueError, match="IpAddress is not known"):
        decided(allow(Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}), aws__SourceIp="1")


def test_without_tls_a_queue_that_asks_for_it_refuses_everybody() -> None:
    over_tls = decided(allow(), of_resource=(TLS_ONLY,))
    plain = decided(allow(), of_resource=(TLS_ONLY,), aws__SecureTransport="false")
    assert (over_tls, plain) == (Decision.ALLOWED, Decision.DENIED)


def test_a_role_with_a_policy_from_elsewhere_is_refused() -> None:
    role = {"ManagedPolicyArns": ["arn:aws:iam::aws:policy/AdministratorAccess"]}
    template = Resolved(resources={"Role": {"Type": "AWS::IAM::Role", "Properties": role}})
    with pytest.raises(ValueError, match="AdministratorAccess"):
        Policies.of(template)


# --- templates -----------------------------------------------------------------------------------

RESOURCES = {
    "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "jobs"}},
    "Nameless": {"Type": "AWS::IAM::Role", "Properties": {}},
    "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "alerts"}},
}


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"Ref": "AWS::AccountId"}, ACCOUNT),
        ({"Ref": "Queue"}, f"https://sqs.us-east-1.amazonaws.com/{ACCOUNT}/jobs"),
        ({"Ref": "Nameless"}, "Nameless"),
        ({"Ref": "Topic"}, f"arn:aws:sns:us-east-1:{ACCOUNT}:alerts"),
        ({"Fn::GetAtt": ["Queue", "Arn"]}, QUEUE),
        ({"Fn::GetAtt": "Queue.QueueName"}, "jobs"),
        ({"Fn::GetAtt": ["Nameless", "Arn"]}, f"arn:aws:iam::{ACCOUNT}:role/Nameless"),
        ({"Fn::Join": ["", [{"Fn::GetAtt": ["Queue", "Arn"]}, "-dlq"]]}, f"{QUEUE}-dlq"),
        ({"Fn::Select": [5, {"Fn::Split": [":", {"Fn::GetAtt": ["Queue", "Arn"]}]}]}, "jobs"),
        ({"Fn::Sub": "${Queue.Arn}/${AWS::Region}"}, f"{QUEUE}/us-east-1"),
        ({"Fn::Sub": ["${name}-x", {"name": {"Ref": "Nameless"}}]}, "Nameless-x"),
        ([{"Ref": "Nameless"}], ["Nameless"]),
    ],
)
def test_a_function_is_worked_out(given: Any, value: Any) -> None:
    asking = {"Type": "X", "Properties": {"Value": given}}
    template = resolve({"Resources": {**RESOURCES, "Asking": asking}})
    assert template.of_type("X") == {"Asking": {"Value": value}}


@pytest.mark.parametrize("given", [{"Fn::ImportValue": "x"}, {"Ref": "Nowhere"}])
def test_what_cant_be_worked_out_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"ImportValue is not known|no resource 'Nowhere'"):
        resolve({"Resources": {"Asking": {"Type": "X", "Properties": {"Value": given}}}})
