"""IAM takes the policies of every role, however many queues an app has."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Annotations, Match

from headgate import App, Replay, cron
from headgate.infra import Deployment, HeadgateStack, JobSystem, WorkerGroup
from headgate.infra.checks.nag import add_nag
from headgate.infra.data.permissions import grant_view
from headgate.infra.exported.synthesis import exported_template
from headgate.infra.roles.lengths import split
from headgate.jobs.deployment.policy_parts import LONGEST_INLINE, LONGEST_POLICY, MOST_POLICIES
from headgate.ops.export.artifacts import ExportOrigin
from headgate.ops.export.resources import outputs_of, resources_of
from headgate.ops.export.terraform.document import terraform_configuration
from tests.infra.complete import nag_findings, nag_report
from tests.infra.conftest import ELSEWHERE, NO_BUNDLING, Params
from tests.infra.templates import listed, template_of
from tests.support.cloudformation import ACCOUNT, REGION, Resolved, resolve

ROLE = f"arn:aws:iam::{ACCOUNT}:role/tasks"
GROUPS = [
    *("orders", "payments", "inventory", "shipping", "reports"),
    *("emails", "analytics", "imports", "webhooks", "search"),
]
PLACE = cdk.Environment(account=ACCOUNT, region=REGION)


def shop() -> App:
    """Return an app of 40 queues, whose sweep sends dead letters back to each."""
    app = App("ecommerce", stage="prod", priorities="all", replay=Replay())
    for name in GROUPS:
        app.queue(name).define(f"do-{name}", Params)
    return app


@dataclass(frozen=True, slots=True)
class Written:
    """A system's template, and what cdk-nag found in it."""

    system: Resolved
    found: set[tuple[str, str]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The system of that app, with a role of its own for one worker group and one that exists."""
    assembly = cdk.App(context=NO_BUNDLING, outdir=str(tmp_path_factory.mktemp("lengths")))
    add_nag(assembly)
    stack = HeadgateStack(
        assembly,
        "Shop",
        app=shop(),
        deployment=Deployment(
            workers=(WorkerGroup(), WorkerGroup(name="more", task_role=ROLE)),
            network="public",
            nested=tuple(GROUPS),
        ),
        image=ecs.ContainerImage.from_registry("registry.example.com/shop:7"),
        app_path="shop.app:app",
        env=PLACE,
    )
    found = nag_findings(nag_report(assembly))
    return Written(resolve(template_of(stack)), found)


@pytest.fixture(scope="module")
def system(written: Written) -> Resolved:
    return written.system


def length(document: Mapping[str, Any]) -> int:
    return len(json.dumps(document, separators=(",", ":")))


def documents(system: Resolved) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Return the inline and the managed policies of each role, by its logical id or its name."""
    inline, managed = defaultdict[str, list[Any]](list), defaultdict[str, list[Any]](list)
    policies = system.of_type("AWS::IAM::ManagedPolicy")
    for name, role in system.of_type("AWS::IAM::Role").items():
        inline[name] += [each["PolicyDocument"] for each in role.get("Policies", [])]
        managed[name] += [
            policies[each]["PolicyDocument"] for each in role.get("ManagedPolicyArns", [])
        ]
    for kind, into in (("AWS::IAM::Policy", inline), ("AWS::IAM::ManagedPolicy", managed)):
        for policy in system.of_type(kind).values():
            for role in policy.get("Roles", []):
                into[role].append(policy["PolicyDocument"])
    return inline, managed


def allowed(found: list[Any], action: str) -> set[str]:
    return {
        resource
        for document in found
        for statement in document["Statement"]
        if action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def test_the_policies_of_every_role_are_short_enough_for_iam(system: Resolved) -> None:
    inline, managed = documents(system)
    for role in {*inline, *managed}:
        assert sum(map(length, inline[role])) <= LONGEST_INLINE, role
        assert all(length(each) <= LONGEST_POLICY for each in managed[role]), role
        assert len(managed[role]) <= MOST_POLICIES / 2, f"{role} may be a standby's, too"


def test_no_permission_is_lost_where_a_policy_is_split(system: Resolved) -> None:
    inline, managed = documents(system)
    topology = shop().topology
    place = f"arn:aws:sqs:{REGION}:{ACCOUNT}"
    queues = {f"{place}:{spec.name}" for spec in topology.queues}
    letters = {f"{place}:{spec.dlq_name}" for spec in topology.queues}
    [sweep] = [name for name in inline if name.startswith("JobsSweepRole")]
    own = [*inline[sweep], *managed[sweep]]
    assert letters <= allowed(own, "sqs:ReceiveMessage")
    assert allowed(own, "sqs:DeleteMessage") == letters
    assert queues <= allowed(own, "sqs:SendMessage")
    tasks = [*inline["tasks"], *managed["tasks"]]
    assert allowed(tasks, "sqs:ReceiveMessage") == queues
    assert queues | letters <= allowed(tasks, "sqs:SendMessage")


def test_cdk_nag_finds_as_little_in_the_parts_as_in_the_whole(written: Written) -> None:
    assert {rule for rule, _ in written.found if "IAM" in rule} == set()


def many_queues(stack: cdk.Stack, count: int) -> list[sqs.IQueue]:
    return [sqs.Queue(stack, f"Queue{at}", queue_name=f"{at:0>80}") for at in range(count)]


def test_a_role_that_cdk_makes_may_serve_a_hundred_queues() -> None:
    stack = cdk.Stack(cdk.App(), "Shop", env=PLACE)
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    table = dynamodb.TableV2.from_table_name(stack, "Table", "jobs")
    grant_view(role, many_queues(stack, 100), table)
    inline, managed = documents(resolve(template_of(stack)))
    [name] = inline
    found = [*inline[name], *managed[name]]
    assert sum(map(length, inline[name])) <= LONGEST_INLINE
    assert all(length(each) <= LONGEST_POLICY for each in managed[name])
    assert len(allowed(found, "sqs:GetQueueAttributes")) == 100


LONGEST_GROUP = {"name": "ecommerce-backend-of-a-shop", "stage": "production"}
SHORT_GROUP = {"name": "shop", "stage": "prod"}


def scheduled(count: int, length: int, *, name: str, stage: str) -> App:
    """Return an app with so many schedules, the names of which have that length."""
    app = App(name, stage=stage)
    for at in range(count):
        app.define(f"sync-{at:0>{length - 5}}", Params, schedule=cron("0 8 * * ? *"))
    return app


@pytest.mark.parametrize("granted", ["grant_operate", "grant_manage_schedules"])
@pytest.mark.parametrize(
    ("length", "group"), [(12, SHORT_GROUP), (27, LONGEST_GROUP), (64, LONGEST_GROUP)]
)
def test_a_role_that_cdk_makes_may_operate_two_hundred_schedules(
    granted: str, length: int, group: Mapping[str, str]
) -> None:
    app = scheduled(200, length, **group)
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Ops")
    system = JobSystem.from_app(stack, "Jobs", app=app)
    role = iam.Role(stack, "Role", assumed_by=iam.AccountRootPrincipal())
    getattr(system, granted)(role)
    inline, managed = documents(resolve(template_of(stack)))
    [name] = inline
    require_short_enough(inline[name], managed[name])
    found = [*inline[name], *managed[name]]
    changed = {arn.rpartition("/")[2] for arn in allowed(found, "scheduler:UpdateSchedule")}
    assert changed == {*app.types, "dynamic.*"}


def require_short_enough(inline: list[Any], managed: list[Any]) -> None:
    # Elsewhere the ARN of each resource is longer by this.
    longer = len("arn:aws-us-gov:scheduler:us-gov-east-1:") - len(f"arn:aws:scheduler:{REGION}:")
    assert sum(map(length, inline)) + longer * resources_in(inline) <= LONGEST_INLINE
    for each in managed:
        assert length(each) + longer * resources_in([each]) <= LONGEST_POLICY
    assert len(managed) <= MOST_POLICIES


def resources_in(found: list[Any]) -> int:
    return sum(len(listed(each["Resource"])) for one in found for each in one["Statement"])


def test_more_policies_than_a_role_may_have_are_told_at_synthesis() -> None:
    assembly = cdk.App()
    stack = cdk.Stack(assembly, "Shop", env=PLACE)
    role = iam.Role.from_role_arn(stack, "Role", ROLE)
    policy = iam.ManagedPolicy(stack, "Policy", roles=[role])
    arns = [f"arn:aws:sqs:{REGION}:{ACCOUNT}:{at:0>80}" for at in range(500)]
    policy.add_statements(iam.PolicyStatement(actions=["sqs:SendMessage"], resources=arns))
    split(policy, role, 80)
    told = Match.string_like_regexp("gets [0-9]+ managed policies, and IAM allows 10 a role")
    Annotations.from_stack(stack).has_warning("/Shop/Policy", told)


def test_a_role_that_exists_is_not_granted_more_than_fits_inline() -> None:
    assembly = cdk.App(context=NO_BUNDLING)
    stack = cdk.Stack(assembly, "Shop", env=PLACE)
    # Its queues are other stacks' references, and by name for the other system.
    made = JobSystem(stack, "Jobs", app=shop(), deployment=replace(ELSEWHERE, nested=tuple(GROUPS)))
    other = cdk.Stack(assembly, "Other", env=PLACE)
    known = JobSystem.from_app(other, "Jobs", app=shop())
    roles = [iam.Role.from_role_name(other, name, name) for name in ("Made", "Known")]
    for system, role in zip((made, known), roles, strict=True):
        system.grant_submit(role)
    assembly.synth()  # 40 queues fit
    for system, role in zip((made, known), roles, strict=True):
        system.grant_operate(role)
    with pytest.raises(RuntimeError) as refused:
        assembly.synth(force=True)
    for name in ("Made", "Known"):
        assert re.search(rf"Other/{name} have at least 1\d{{4}} characters", str(refused.value))


def test_what_a_cdk_app_merges_is_measured_as_merged() -> None:
    assembly = cdk.App(context={"@aws-cdk/aws-iam:minimizePolicies": True})
    stack = cdk.Stack(assembly, "Shop", env=PLACE)
    role = iam.Role.from_role_name(stack, "Web", "web")
    system = JobSystem.from_app(stack, "Jobs", app=shop())
    for _ in range(4):
        system.grant_submit(role)
    assembly.synth()


def test_an_export_attaches_the_parts_to_their_role_alone() -> None:
    app = shop()
    found = resources_of(exported_template(app, ELSEWHERE))
    outputs = [name for name in outputs_of(found, app.topology) if name.endswith("-arn")]
    assert not [name for name in outputs if "role" in name]
    origin = ExportOrigin(command="headgate export", app="shop-prod", version="1.2.3")
    made: Any = terraform_configuration(found, app.topology, origin)["resource"]
    attached = made["aws_iam_role_policy_attachment"].values()
    assert {each["role"] for each in attached} == {"${aws_iam_role.sweep_role.name}"}
    arns = {each["policy_arn"] for each in attached}
    assert len(arns) == len(attached) > 1
    for arn in arns:
        name = arn.removeprefix("${aws_iam_policy.").removesuffix(".arn}")
        assert "sqs:" in made["aws_iam_policy"][name]["policy"]
