"""The template of an app's data and functions, for CloudFormation without CDK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headgate.jobs.core.topology import Topology
from headgate.jobs.deployment.resource_names import output_key
from headgate.ops.export.artifacts import ExportOrigin
from headgate.ops.export.resources import Output, Resource, Resources, outputs_of

FUNCTION = "AWS::Lambda::Function"

_BUCKET, _KEY = "FunctionsBucket", "FunctionsKey"
_PARAMETERS = {
    _BUCKET: {
        "Type": "String",
        "Description": "The bucket with the zip that `headgate export functions` writes",
    },
    _KEY: {
        "Type": "String",
        "Description": "Its key, another one for each version, or the functions stay as they are",
    },
}

_MOST_OUTPUTS = 200
"""https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html"""


def cloudformation_template(
    resources: Resources, topology: Topology, origin: ExportOrigin
) -> Mapping[str, Any]:
    """Return the template.

    Args:
        resources: its resources.
        topology: the app's queues, which the outputs name; an app with more than about forty has no
            outputs of dead-letter queues, as a template has 200 at most.
        origin: what the template's description says.
    """
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": " ".join(line.strip() for line in origin.lines),
        "Parameters": _PARAMETERS,
        "Resources": {key: _described(each) for key, each in resources.items()},
        "Outputs": {
            output_key(name): {"Description": each.description, "Value": each.value}
            for name, each in _few(outputs_of(resources, topology)).items()
        },
    }


def cloudformation_text(resources: Resources, topology: Topology, origin: ExportOrigin) -> str:
    """Return the template as JSON; see `cloudformation_template`."""
    return json.dumps(cloudformation_template(resources, topology, origin), indent=1) + "\n"


def _described(resource: Resource) -> Mapping[str, Any]:
    properties = dict(resource.properties)
    if resource.kind == FUNCTION:
        properties["Code"] = {"S3Bucket": {"Ref": _BUCKET}, "S3Key": {"Ref": _KEY}}
    depends_on = {"DependsOn": list(resource.depends_on)} if resource.depends_on else {}
    return {
        "Type": resource.kind,
        "Properties": properties,
        **depends_on,
        **resource.policies,
    }


def _few(outputs: Mapping[str, Output]) -> Mapping[str, Output]:
    if len(outputs) <= _MOST_OUTPUTS:
        return outputs
    return {name: each for name, each in outputs.items() if "-dead-letters-" not in name}
