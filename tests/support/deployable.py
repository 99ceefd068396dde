"""The part of a template that MiniStack can deploy: all but the gaps of one table.

A resource of a type that the table doesn't know stays in, so that one which MiniStack can't make
fails the deployment instead of going unseen. `tests/integration/test_deployable.py` shows for each
row that MiniStack still refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Template = Mapping[str, Any]
Resource = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Resources that MiniStack's CloudFormation can't make."""

    type: str
    says: str
    """MiniStack's error for a template that has one; a regular expression."""
    example: Mapping[str, Any]
    """The fewest properties that reproduce the error."""
    having: str | None = None
    """Only those that have this property; None: all of the type."""

    def has(self, resource: Resource) -> bool:
        """Return True if the resource falls into this gap."""
        if resource["Type"] != self.type:
            return False
        return self.having is None or self.having in resource.get("Properties", {})


_UNKNOWN = "Unrecognized resource types"

GAPS: tuple[Gap, ...] = (
    *(
        Gap(type=unknown, says=_UNKNOWN, example={})
        for unknown in (
            "AWS::ApplicationAutoScaling::ScalableTarget",
            "AWS::ApplicationAutoScaling::ScalingPolicy",
            "AWS::Budgets::Budget",
            "AWS::CloudWatch::CompositeAlarm",
            "AWS::EC2::SecurityGroupIngress",
            "AWS::Logs::QueryDefinition",
        )
    ),
    Gap(
        type="AWS::CloudWatch::Alarm",
        having="Metrics",
        says=r"metric math\) is not supported",
        example={"Metrics": [{"Id": "a", "Expression": "1"}], "EvaluationPeriods": 1},
    ),
)
"""All gaps."""


def deployable(template: Template) -> Template:
    """Return the template without what `left_out` names, and without ``DependsOn`` on it."""
    out = left_out(template)
    return {
        **template,
        "Resources": {
            name: _without_order(resource, out)
            for name, resource in template["Resources"].items()
            if name not in out
        },
        "Outputs": {
            name: output
            for name, output in template.get("Outputs", {}).items()
            if out.keys().isdisjoint(_references(output))
        },
    }


def left_out(template: Template) -> Mapping[str, str]:
    """Return the logical ids of resources in the table, and of those that refer to them.

    Each comes with its reason.
    """
    out = {
        name: gap.says
        for name, resource in template["Resources"].items()
        for gap in GAPS
        if gap.has(resource)
    }
    while more := {
        name: f"refers to {read}"
        for name, resource in template["Resources"].items()
        for read in _references(resource.get("Properties", {}))
        if read in out and name not in out
    }:
        out |= more
    return out


def _without_order(resource: Resource, out: Mapping[str, str]) -> Resource:
    after = resource.get("DependsOn", [])
    after = [after] if isinstance(after, str) else after
    return {**resource, "DependsOn": [name for name in after if name not in out]}


def _references(value: Any) -> Iterator[str]:
    """Yield the logical ids that a value refers to."""
    match value:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), _]}:
            yield name
        case Mapping():
            for inner in value.values():
                yield from _references(inner)
        case list():
            for inner in value:
                yield from _references(inner)
