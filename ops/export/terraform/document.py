"""Terraform's configuration of an app's data and functions, in its JSON syntax.

https://developer.hashicorp.com/terraform/language/syntax/json
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from headgate.jobs.core.topology import Topology
from headgate.jobs.errors import ConfigurationError
from headgate.ops.export.artifacts import ExportOrigin
from headgate.ops.export.functions import NAME as FUNCTIONS_ZIP
from headgate.ops.export.resources import Resource, Resources, outputs_of
from headgate.ops.export.terraform.composed import Part, parts_of
from headgate.ops.export.terraform.references import References, address

_TERRAFORM = {
    "required_version": ">= 1.5",
    "required_providers": {"aws": {"source": "hashicorp/aws", "version": ">= 5.70, < 7.0"}},
}

_VARIABLES = {
    "functions_zip": {
        "type": "string",
        "default": FUNCTIONS_ZIP,
        "description": "The zip that `headgate export functions` writes",
    }
}

_DATA: Mapping[str, Any] = {
    "aws_caller_identity": {"current": {}},
    "aws_partition": {"current": {}},
    "aws_region": {"current": {}},
}

_INLINE = "aws_iam_role_policy"


def terraform_configuration(
    resources: Resources, topology: Topology, origin: ExportOrigin
) -> Mapping[str, Any]:
    """Return the configuration, without a provider: it is a module, or goes beside one.

    Args:
        resources: the resources.
        topology: the app's queues, which the outputs name.
        origin: what its comment says.

    Raises:
        ConfigurationError: a resource or a property has no counterpart in Terraform here.
    """
    references = References(resources=resources)
    rendered = [
        (resource, part)
        for resource in resources.values()
        for part in parts_of(resource, references)
    ]
    outputs = outputs_of(resources, topology)
    return {
        "//": list(origin.lines),
        "terraform": _TERRAFORM,
        "variable": _VARIABLES,
        "data": _DATA,
        "resource": _by_type(rendered, resources),
        "output": {
            name.replace("-", "_"): {
                "description": each.description,
                "value": references.value(each.value),
            }
            for name, each in outputs.items()
        },
    }


def terraform_text(resources: Resources, topology: Topology, origin: ExportOrigin) -> str:
    """Return the configuration as JSON; see `terraform_configuration`."""
    return json.dumps(terraform_configuration(resources, topology, origin), indent=2) + "\n"


def _by_type(
    rendered: Sequence[tuple[Resource, Part]], resources: Resources
) -> Mapping[str, Mapping[str, Any]]:
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    permissions = _permissions([part for _, part in rendered])
    for resource, part in rendered:
        if part.name in found[part.type]:
            raise ConfigurationError(f"two resources would be called {part.address}")
        found[part.type][part.name] = {
            **part.arguments,
            **_depending(resource, part, resources, permissions),
            **({"lifecycle": {"prevent_destroy": True}} if _is_protected(resource, part) else {}),
        }
    return dict(found)


def _is_protected(resource: Resource, part: Part) -> bool:
    """Return True for what holds data; its settings can be replaced at any time."""
    return resource.is_kept and part.address == address(resource)


def _depending(
    resource: Resource, part: Part, resources: Resources, permissions: Mapping[str, Sequence[str]]
) -> Mapping[str, Sequence[str]]:
    """Return what a resource depends on without naming it: the permissions of the roles it names.

    In CloudFormation they are a part of the role. Without them, Lambda refuses a destination of
    failures, for example.
    """
    found = {address(resources[each]) for each in resource.depends_on}
    if part.type != _INLINE:
        text = json.dumps(part.arguments)
        for role, policies in permissions.items():
            if f"${{{role}." in text:
                found.update(policies)
    found.discard(part.address)
    return {"depends_on": sorted(found)} if found else {}


def _permissions(parts: Sequence[Part]) -> Mapping[str, Sequence[str]]:
    """Return the addresses of the inline policies of each role, by the role's address."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for part in parts:
        if part.type == _INLINE:
            role = str(part.arguments["role"]).removeprefix("${").rpartition(".")[0]
            found[role].append(part.address)
    return found
