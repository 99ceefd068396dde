"""The data that a deployment would take out of its stack, by the templates before and after.

CloudFormation deletes a resource that is no longer in the template, or keeps it without the stack,
by the policy that it was deployed with. Neither asks whether it holds jobs, so it is found out here
before: a renamed queue group, another ``fifo=``, a priority that is gone, and schedules or long
delays that are no longer declared all remove such a resource.
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-deletionpolicy.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headgate.jobs.values.light_dataclass import frozen_dataclass

QUEUE, SCHEDULE_GROUP = "queue", "schedule group"
"""Kinds of resources whose jobs can be counted."""

KEY = "key"
"""The kind of what has sealed payloads and results."""

_ALIAS = "AWS::KMS::Alias"

_KINDS: Mapping[str, tuple[str, str]] = {
    "AWS::DynamoDB::GlobalTable": ("table", "TableName"),
    _ALIAS: (KEY, "AliasName"),
    "AWS::S3::Bucket": ("bucket", "BucketName"),
    "AWS::SQS::Queue": (QUEUE, "QueueName"),
    "AWS::Scheduler::ScheduleGroup": (SCHEDULE_GROUP, "Name"),
    "AWS::SecretsManager::Secret": ("secret", "Name"),
}
"""The types of resources that hold jobs or open them, with the property that names each."""

Template = Mapping[str, Any]
_Resource = Mapping[str, Any]


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A resource with data that a deployment takes out of its stack."""

    kind: str
    """The kind of resource, as in "queue"."""
    name: str
    """Its physical name."""
    kept: bool
    """True if it stays, without the stack and without workers; False if it is deleted."""


def removals(
    deployed: Template, planned: Template, pseudo: Mapping[str, str] = {}
) -> list[Removal]:
    """Return what a deployment removes, by kind and name.

    Args:
        deployed: the stack's present template.
        planned: the template to be deployed.
        pseudo: the values of pseudo parameters, as of ``AWS::AccountId``. A template refers to them
            where its stage has no account and region, and has their values where it does.
    """
    remaining = {key for key, _, _ in _named(planned, pseudo)}
    replaced = planned.get("Resources", {}).keys()
    found = [
        Removal(kind=key[0], name=key[1], kept=_is_kept(resource, replaced=logical_id in replaced))
        for key, logical_id, resource in _named(deployed, pseudo)
        if key not in remaining
    ]
    return sorted(found, key=lambda each: (each.kind, each.name))


def _named(
    template: Template, pseudo: Mapping[str, str]
) -> Iterator[tuple[tuple[str, str], str, _Resource]]:
    """Yield what holds data: its kind and name, its logical id, the resource.

    A resource without a name of its own holds none of an app's data. A key is named by its alias,
    and its own policy says what becomes of it.
    """
    resources = template.get("Resources", {})
    for logical_id, resource in resources.items():
        kind, naming = _KINDS.get(resource.get("Type", ""), ("", ""))
        if name := resource.get("Properties", {}).get(naming):
            held = _key_of(resource) if kind == KEY else logical_id
            yield (kind, _flat(name, pseudo)), held, resources.get(held, resource)


def _key_of(alias: _Resource) -> str:
    """Return the logical id of the key that an alias stands for; empty if it is elsewhere."""
    match alias["Properties"].get("TargetKeyId"):
        case {"Fn::GetAtt": [str(key), _]} | {"Ref": str(key)}:
            return key
    return ""


def _is_kept(resource: _Resource, *, replaced: bool) -> bool:
    policy = "UpdateReplacePolicy" if replaced else "DeletionPolicy"
    return str(resource.get(policy, "Delete")).startswith("Retain")


def _flat(name: Any, pseudo: Mapping[str, str]) -> str:
    """Return a name as a text; a reference without a value there is its name in angle brackets."""
    match name:
        case {"Fn::Join": [str(delimiter), list(parts)]}:
            return delimiter.join(_flat(part, pseudo) for part in parts)
        case {"Ref": str(reference)}:
            return pseudo.get(reference, f"<{reference}>")
    return str(name)
