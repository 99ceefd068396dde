"""The resources of an export: those of CDK's template that other tools can create.

Left out is what watches the system (alarms, dashboard, budget) and CDK's own helpers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from headgate.jobs.core.existing.arns import bare_name, is_arn, owner_of
from headgate.jobs.core.existing.resources import Existing
from headgate.jobs.core.topology import Topology
from headgate.jobs.deployment.policy_parts import Statement, parts, written_length
from headgate.jobs.values.light_dataclass import light_dataclass

_PATH = "aws:cdk:path"
_SYSTEM = "Jobs"
_WATCHING = "Watching"
_LAST = ("Resource", "Default")
_HELPERS = ("Custom::", "AWS::CDK::")
_OF_CDK = "aws-cdk:"
_POLICY = "AWS::IAM::ManagedPolicy"
_QUEUE = "AWS::SQS::Queue"

_LONGEST_PLACE = "arn:aws-us-gov:service:ap-southeast-1:111122223333:"
_LONGEST_NAME = 80


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of a template of CloudFormation's."""

    logical_id: str
    path: tuple[str, ...]
    """The ids of its constructs within the system, such as ``("Queues", "jobs-high")``."""
    kind: str
    """Its type, such as ``AWS::SQS::Queue``."""
    properties: Mapping[str, Any]
    depends_on: tuple[str, ...] = ()
    policies: Mapping[str, str]
    """Its ``DeletionPolicy`` and ``UpdateReplacePolicy``, if it has them."""

    @property
    def is_kept(self) -> bool:
        """True if it holds data that outlives its stack."""
        return self.policies.get("DeletionPolicy", "Delete").startswith("Retain")


Resources = Mapping[str, Resource]
"""Resources by their logical ids."""

Value = str | Mapping[str, Any]
"""A text, or a reference as in a template."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A value that a deployment prints."""

    description: str
    value: Value


def resources_of(template: Mapping[str, Any]) -> Resources:
    """Return the resources of an export, in the template's order."""
    every = template["Resources"]
    kept = {key: each for key, each in every.items() if not _is_left_out(each)}
    gone = every.keys() - kept.keys()
    found = {key: _resource(key, each, gone) for key, each in kept.items()}
    return {
        part.logical_id: part for each in found.values() for part in _within_length(each, found)
    }


def outputs_of(resources: Resources, topology: Topology) -> Mapping[str, Output]:
    """Return the outputs by their names, such as ``jobs-high-url``: each queue's URL and ARN,
    the table, the bucket, and the policies' ARNs; of what exists already, too."""
    found: dict[str, Output] = {}
    existing = topology.existing.queue_names
    queues = {
        str(each.properties["QueueName"]): each.logical_id
        for each in resources.values()
        if each.kind == _QUEUE
    }
    for name, physical in _queues(topology):
        if physical in queues:  # not each app has a bridge, and a queue of its failures
            found[f"{name}-url"] = _output(physical, {"Ref": queues[physical]})
            found[f"{name}-arn"] = _output(physical, {"Fn::GetAtt": [queues[physical], "Arn"]})
        elif physical in existing:
            found[f"{name}-url"] = _output(physical, _url(physical))
            found[f"{name}-arn"] = _output(physical, _arn(physical))
    for each in resources.values():
        match each.kind:
            case "AWS::DynamoDB::GlobalTable":
                found["table"] = _output("The records of jobs", {"Ref": each.logical_id})
            case "AWS::S3::Bucket":
                found["bucket"] = _output("Large payloads and results", {"Ref": each.logical_id})
            case "AWS::IAM::ManagedPolicy" if _is_for_others(each):
                name = each.path[-1].lower()
                about = str(each.properties["Description"])
                found[f"{name}-arn"] = _output(about, {"Ref": each.logical_id})
    return found | _of_existing(topology.existing)


def references(value: Any) -> Iterator[str]:
    """Yield the logical ids and pseudo parameters that a value of a template refers to."""
    match value:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]}:
            yield name
        case dict():
            for each in value.values():
                yield from references(each)
        case list():
            for each in value:
                yield from references(each)


def _is_left_out(resource: Mapping[str, Any]) -> bool:
    ids = str(resource.get("Metadata", {}).get(_PATH, "")).split("/")
    of_cdk = any(each.startswith(_HELPERS) for each in (str(resource["Type"]), *ids))
    return of_cdk or ids[1:3] == [_SYSTEM, _WATCHING]


def _resource(logical_id: str, described: Mapping[str, Any], gone: set[str]) -> Resource:
    _, *ids = described["Metadata"][_PATH].split("/")
    path = [each for each in ids[:-1] if each != _SYSTEM]
    if ids[-1] not in _LAST:
        path.append(ids[-1])
    depends_on = described.get("DependsOn", ())
    depends_on = (depends_on,) if isinstance(depends_on, str) else depends_on
    return Resource(
        logical_id=logical_id,
        path=tuple(path),
        kind=described["Type"],
        properties=_pruned(described.get("Properties", {}), gone),
        depends_on=tuple(each for each in depends_on if each not in gone),
        policies={
            name: described[name]
            for name in ("DeletionPolicy", "UpdateReplacePolicy")
            if name in described
        },
    )


def _pruned(value: Any, gone: set[str]) -> Any:
    """Return a value without the statements and tags that serve what is left out."""
    if isinstance(value, list):
        return [_pruned(each, gone) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _pruned(each, gone) for name, each in value.items()}
    if isinstance(statements := found.get("Statement"), list):
        found["Statement"] = [
            each for each in statements if not gone.intersection(references(each))
        ]
    if isinstance(tags := found.get("Tags"), list):
        found["Tags"] = [each for each in tags if not str(each["Key"]).startswith(_OF_CDK)]
    return found


def _is_for_others(policy: Resource) -> bool:
    """Return whether a managed policy is to be attached; those of the functions' roles are, and
    have no names."""
    return "ManagedPolicyName" in policy.properties


def _within_length(resource: Resource, resources: Resources) -> Iterator[Resource]:
    """Yield a policy in parts that are short enough for IAM; anything else as it is."""
    if resource.kind != _POLICY or not _is_for_others(resource):
        yield resource
        return

    def length(statements: Any) -> int:
        shown: list[Statement] = [_shown(each, resources) for each in statements]
        return written_length(shown)

    properties = resource.properties
    for at, part in enumerate(parts(properties["PolicyDocument"], length), start=1):
        if at == 1:
            yield replace(resource, properties={**properties, "PolicyDocument": part})
            continue
        name = {"Fn::Join": ["", [properties["ManagedPolicyName"], f"-{at}"]]}
        yield replace(
            resource,
            logical_id=f"{resource.logical_id}{at}",
            path=(*resource.path[:-1], f"{resource.path[-1]}-{at}"),
            properties={**properties, "ManagedPolicyName": name, "PolicyDocument": part},
        )


def _shown(value: Any, resources: Resources) -> Any:
    """Return a value about as long as it will be once its references are resolved, or longer."""
    match value:
        case {"Fn::Join": [between, joined]}:
            return str(between).join(str(_shown(each, resources)) for each in joined)
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]}:
            named = resources[name].properties.get("QueueName") if name in resources else None
            return _LONGEST_PLACE + (str(named) if named else "x" * _LONGEST_NAME)
        case dict():
            return {key: _shown(each, resources) for key, each in value.items()}
        case list():
            return [_shown(each, resources) for each in value]
    return value


def _queues(topology: Topology) -> Iterator[tuple[str, str]]:
    """Yield the names within the app, and the physical ones, of all queues."""
    for spec in topology.queues:
        yield f"{spec.group}-{spec.priority}", spec.name
        yield f"{spec.group}-{spec.priority}-dead-letters", spec.dlq_name
    yield "quarantine", topology.quarantine_name
    yield "failed-firings", topology.failed_firings_name
    yield "failed-sweeps", topology.failed_sweeps_name


def _of_existing(existing: Existing) -> dict[str, Output]:
    """Return the outputs of what something else created, and the variable that names all of it."""
    told = "HEADGATE_EXISTING of workers, and of what submits jobs"
    values = {
        "table": ("The records of jobs", existing.table_name),
        "bucket": ("Large payloads and results", existing.bucket_name),
        "existing": (told, existing.to_text() if existing else None),
    }
    return {
        name: _output(about, value) for name, (about, value) in values.items() if value is not None
    }


def _url(queue: str) -> Value:
    host: list[Value] = ["https://sqs.", {"Ref": "AWS::Region"}, ".", {"Ref": "AWS::URLSuffix"}]
    return _joined(*host, "/", owner_of(queue) or {"Ref": "AWS::AccountId"}, "/", bare_name(queue))


def _arn(queue: str) -> Value:
    if is_arn(queue):
        return queue
    place: list[Value] = ["arn:", {"Ref": "AWS::Partition"}, ":sqs:", {"Ref": "AWS::Region"}]
    return _joined(*place, ":", {"Ref": "AWS::AccountId"}, ":", queue)


def _joined(*parts: Value) -> Value:
    return {"Fn::Join": ["", list(parts)]}


def _output(description: str, value: Value) -> Output:
    return Output(description=description, value=value)
