"""Resources of a deployed stack keep their logical ids and names, so that none is made anew.

CloudFormation replaces or deletes a resource whose logical id, type or name has changed, and the
jobs in it are gone. ``resources.v1.json`` has those of a stack as it was once deployed. New ones
are added there; one is taken out only if a deployment may delete it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.infra.complete import Complete

DEPLOYED: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("resources.v1.json").read_text(encoding="utf-8")
)

NAMES = (
    *("QueueName", "TableName", "BucketName", "AlarmName", "FunctionName", "ServiceName"),
    *("ClusterName", "RoleName", "LogGroupName", "DashboardName", "Name"),
)
"""Properties that name a resource, of which each has one at most."""


def found(resource: dict[str, Any] | None, known: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a template has of a resource, in the form of the file."""
    if resource is None:
        return None
    properties = resource.get("Properties", {})
    named = [properties[name] for name in NAMES if name in properties] if "name" in known else []
    return {"type": resource["Type"]} | ({"name": named[0]} if named else {})


def test_a_deployment_replaces_and_renames_nothing_that_was_deployed(complete: Complete) -> None:
    there = complete.template["Resources"]
    now = {name: found(there.get(name), known) for name, known in DEPLOYED.items()}
    assert now == DEPLOYED


def test_all_that_holds_jobs_is_among_what_was_deployed() -> None:
    kinds = [known["type"] for known in DEPLOYED.values()]
    for kind, at_least in (
        ("AWS::SQS::Queue", 15),
        ("AWS::DynamoDB::GlobalTable", 1),
        ("AWS::S3::Bucket", 1),
        ("AWS::Scheduler::ScheduleGroup", 1),
    ):
        assert kinds.count(kind) >= at_least
