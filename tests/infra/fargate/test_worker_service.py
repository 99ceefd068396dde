"""A worker group's service matches the deployment, and may do what its queues need."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ecs as ecs
from typer.testing import CliRunner

import headgate.workers.process.entry
from headgate import App
from headgate.infra.data.permissions import SUBMIT, WORK
from headgate.infra.fargate.image import worker_image
from headgate.infra.fargate.worker_command import HEALTH_PORT, USER, command, health_check
from headgate.infra.job_system import JobSystem
from headgate.jobs.core.settings import Settings
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.resource_names import worker_service_name
from headgate.jobs.errors import ConfigurationError
from headgate.ops.cli.main import cli
from headgate.workers.configuration import ObservabilitySettings, WorkerSettings
from headgate.workers.process.ecs_protection import bound_s
from tests.infra.conftest import ELSEWHERE, NO_BUNDLING, Params
from tests.infra.fargate.workers import (
    APP_PATH,
    DEFAULT,
    DEPLOYMENT,
    IMAGE,
    NIGHT,
    SPARE,
    Deployed,
    deployed,
    shop,
)
from tests.infra.templates import Properties, listed, name_of, resources, template_of
from tests.support.dockerfile import copied, read_dockerfile
from tests.support.ports import NOBODY_LISTENS

ROOT = Path(__file__).parents[3]
DEPTH = "sqs:GetQueueAttributes"
GROUPS = pytest.mark.parametrize("group", DEPLOYMENT.workers, ids=lambda group: group.name)


@pytest.fixture(scope="module")
def system() -> Deployed:
    return deployed(shop(), DEPLOYMENT)


def bare_stack() -> cdk.Stack:
    return cdk.Stack(cdk.App(context=NO_BUNDLING), "Own")


# --- the service ---------------------------------------------------------------------------------


def test_every_group_has_its_service_by_the_name_that_others_look_up(system: Deployed) -> None:
    names = {
        each["ServiceName"] for each in resources(system.template, "AWS::ECS::Service").values()
    }
    assert names == {worker_service_name(system.app.topology, g.name) for g in DEPLOYMENT.workers}
    assert set(system.stack.jobs.services) == {group.name for group in DEPLOYMENT.workers}


@GROUPS
def test_a_task_is_as_large_as_declared_and_runs_on_arm(
    system: Deployed, group: WorkerGroup
) -> None:
    task = system.task(group)
    assert (task["Cpu"], task["Memory"]) == (str(group.cpu), str(group.memory_mib))
    assert task["RequiresCompatibilities"] == ["FARGATE"]
    assert task["RuntimePlatform"] == {
        "CpuArchitecture": "ARM64",
        "OperatingSystemFamily": "LINUX",
    }


@pytest.mark.parametrize(
    ("group", "strategy"),
    [
        (DEFAULT, [("FARGATE", None, 1)]),
        (SPARE, [("FARGATE", SPARE.on_demand, 0), ("FARGATE_SPOT", None, 1)]),
        (NIGHT, [("FARGATE_SPOT", None, 1)]),
    ],
    ids=["on demand", "spot", "spot, from none"],
)
def test_a_group_runs_on_the_capacity_that_it_asked_for(
    system: Deployed, group: WorkerGroup, strategy: list[tuple[str, int | None, int]]
) -> None:
    service = system.service(group)
    assert "LaunchType" not in service
    assert [
        (each["CapacityProvider"], each.get("Base"), each["Weight"])
        for each in service["CapacityProviderStrategy"]
    ] == strategy
    [cluster] = resources(system.template, "AWS::ECS::Cluster").values()
    assert {name for name, _, _ in strategy} <= set(cluster["CapacityProviders"])


@GROUPS
def test_a_deploy_keeps_the_capacity_and_rolls_back_on_failure(
    system: Deployed, group: WorkerGroup
) -> None:
    deployment = system.service(group)["DeploymentConfiguration"]
    assert deployment["MinimumHealthyPercent"] == 100
    assert deployment["MaximumPercent"] > 100
    assert deployment["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
    specs = group.selection.of(system.app.topology)
    alarms = [f"shop-test-{spec.group}-{spec.priority}-failing" for spec in specs]
    assert deployment["Alarms"] == {"AlarmNames": alarms, "Enable": True, "Rollback": True}
    created = resources(system.template, "AWS::CloudWatch::Alarm", "JobsWatching").values()
    assert set(alarms) <= {each["AlarmName"] for each in created}


@GROUPS
def test_how_many_tasks_run_is_never_set_by_a_deploy(system: Deployed, group: WorkerGroup) -> None:
    assert "DesiredCount" not in system.service(group)


@GROUPS
def test_nobody_can_open_a_shell_in_a_task(system: Deployed, group: WorkerGroup) -> None:
    assert system.service(group)["EnableExecuteCommand"] is False


def test_a_service_depends_on_its_image_pull_route_and_permission(
    system: Deployed,
) -> None:
    endpoints = set(resources(system.template, "AWS::EC2::VPCEndpoint"))
    policies = set(resources(system.template, "AWS::IAM::Policy"))
    for logical_id, resource in system.template["Resources"].items():
        if resource["Type"] == "AWS::ECS::Service":
            awaited = set(resource["DependsOn"])
            own = logical_id.removesuffix("Service")[: len("JobsWorkers") + 4]
            assert endpoints <= awaited
            assert {each for each in policies if each.startswith(own)} & awaited


def test_container_insights_which_are_paid_for_are_off(system: Deployed) -> None:
    [cluster] = resources(system.template, "AWS::ECS::Cluster").values()
    assert cluster["ClusterSettings"] == [{"Name": "containerInsights", "Value": "disabled"}]


# --- the container -------------------------------------------------------------------------------


class Started:
    """The settings that the command line passed to the worker."""

    settings: WorkerSettings | None = None
    watching: ObservabilitySettings | None = None

    def run(self, _app: App, settings: WorkerSettings, watching: ObservabilitySettings) -> int:
        self.settings, self.watching = settings, watching
        return 0


@GROUPS
def test_the_worker_command_line_reads_the_groups_command_as_meant(
    system: Deployed, group: WorkerGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = Started()
    monkeypatch.setattr(headgate.workers.process.entry, "run", started.run)
    monkeypatch.setattr("headgate.workers.logs.configure", lambda **_: None)
    monkeypatch.setattr(
        "headgate.workers.process.supervisor_link.is_supervised", lambda _environ: True
    )  # as in the supervisor's child
    monkeypatch.setenv("HEADGATE_APP", "tests.infra.fargate.test_worker_service:SHOP")
    container = system.container(group)
    assert container["EntryPoint"] == ["headgate"]
    assert container["Command"] == command(group)

    result = CliRunner().invoke(cli, container["Command"])

    assert result.exit_code == 0, result.output
    assert started.settings is not None
    assert started.settings.selection == group.selection
    assert started.settings.concurrency == group.concurrency
    assert started.settings.drain == group.drain
    assert started.watching == ObservabilitySettings(
        port=HEALTH_PORT, host=group.health_host, emf=True
    )
    assert container["Command"][container["Command"].index("--processes") + 1] == str(
        group.processes
    )


def test_a_task_s_metrics_are_within_reach_of_others_only_where_its_group_says_so(
    system: Deployed,
) -> None:
    assert "PortMappings" not in system.container(DEFAULT)
    mapped = system.container(SPARE)["PortMappings"]
    assert [each["ContainerPort"] for each in mapped] == [HEALTH_PORT, HEALTH_PORT + 1]
    assert "--health-host" in system.container(SPARE)["Command"]
    rules = resources(system.template, "AWS::EC2::SecurityGroupIngress").values()
    assert not [rule for rule in rules if rule["FromPort"] == HEALTH_PORT]


def test_health_is_served_on_every_address_of_a_task_or_on_its_own_alone() -> None:
    with pytest.raises(ConfigurationError, match=r"127\.0\.0\.1 or 0\.0\.0\.0.*'10\.0\.0\.7'"):
        WorkerGroup(health_host="10.0.0.7")


SHOP = shop()


@GROUPS
def test_a_task_s_environment_says_which_app_stage_and_bucket_it_serves(
    system: Deployed, group: WorkerGroup
) -> None:
    found = {each["Name"]: each["Value"] for each in system.container(group)["Environment"]}
    [bucket] = resources(system.template, "AWS::S3::Bucket")
    assert found == {
        "HEADGATE_APP": APP_PATH,
        "HEADGATE_STAGE": system.app.stage,
        "HEADGATE_STOP_TIMEOUT": f"{group.stop_timeout.total_seconds():g}",
        "HEADGATE_BUCKET": {"Ref": bucket},
        "HEADGATE_ACCOUNT": {"Ref": "AWS::AccountId"},
    }
    known = dict.fromkeys(found, "123456789012") | {"HEADGATE_STOP_TIMEOUT": "30"}
    assert Settings.from_env(known).account == "123456789012"


@GROUPS
def test_what_drains_is_settled_before_the_container_is_killed(
    system: Deployed, group: WorkerGroup
) -> None:
    killed_after_s = system.container(group)["StopTimeout"]
    assert killed_after_s == group.stop_timeout.total_seconds()
    assert bound_s(group.drain, killed_after_s) == group.drain.total_seconds()


@GROUPS
def test_a_container_runs_unprivileged_and_writes_only_to_tmp(
    system: Deployed, group: WorkerGroup
) -> None:
    container = system.container(group)
    assert container["User"] == USER
    assert container["ReadonlyRootFilesystem"] is True
    assert container["LinuxParameters"] == {
        "Capabilities": {"Drop": ["ALL"]},
        "InitProcessEnabled": True,
    }
    [mount] = container["MountPoints"]
    assert (mount["ContainerPath"], mount["ReadOnly"]) == ("/tmp", False)  # noqa: S108 - the container's own
    assert [volume["Name"] for volume in system.task(group)["Volumes"]] == [mount["SourceVolume"]]


@GROUPS
def test_its_health_check_asks_every_process_without_a_shell(
    system: Deployed, group: WorkerGroup
) -> None:
    check = system.container(group)["HealthCheck"]
    assert check["Command"] == ["CMD", *health_check(group)]
    assert f"range({HEALTH_PORT}, {HEALTH_PORT} + {group.processes})" in health_check(group)[-1]
    assert check["StartPeriod"] > check["Interval"] > check["Timeout"]


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_a_task_is_healthy_once_it_has_received_whatever_its_readiness(
    monkeypatch: pytest.MonkeyPatch, status: int, code: int
) -> None:
    asked: list[str] = []

    class Probed(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Probed) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        monkeypatch.setattr("headgate.infra.fargate.worker_command.HEALTH_PORT", server.server_port)
        done = subprocess.run([sys.executable, *health_check(DEFAULT)[1:]])
    assert (done.returncode, asked) == (code, ["/startupz"])


def test_a_task_without_queues_fails_its_checks_before_it_ends_by_itself(system: Deployed) -> None:
    group = DEPLOYMENT.workers[0]
    check = system.container(group)["HealthCheck"]
    arguments = command(group)
    grace_s = float(arguments[arguments.index("--queue-grace") + 1].removesuffix("s"))
    assert grace_s > check["StartPeriod"] + (check["Retries"] + 1) * check["Interval"]


def test_a_health_check_fails_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.infra.fargate.worker_command.HEALTH_PORT", NOBODY_LISTENS)
    done = subprocess.run([sys.executable, *health_check(DEFAULT)[1:]], capture_output=True)
    assert done.returncode != 0


@GROUPS
def test_its_log_is_kept_for_a_month_and_never_keeps_a_worker_waiting(
    system: Deployed, group: WorkerGroup
) -> None:
    log = system.container(group)["LogConfiguration"]
    assert log["LogDriver"] == "awslogs"
    assert log["Options"]["mode"] == "non-blocking"
    assert system.resource(log["Options"]["awslogs-group"])["RetentionInDays"] == 30


# --- its permissions -----------------------------------------------------------------------------


def allowed(system: Deployed, role: Any) -> list[Properties]:
    """Return the statements of a role's policies."""
    logical_id = role["Fn::GetAtt"][0]
    return [
        statement
        for policy in resources(system.template, "AWS::IAM::Policy").values()
        if {"Ref": logical_id} in policy["Roles"]
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def may(system: Deployed, group: WorkerGroup, action: str) -> set[str]:
    """Return the names of the resources on which a group's tasks may take this action."""
    return {
        name_of(system.template, arn)
        for statement in allowed(system, system.task(group)["TaskRoleArn"])
        if action in listed(statement["Action"])
        for arn in listed(statement["Resource"])
    }


@GROUPS
def test_a_group_may_work_on_its_own_queues_and_no_other(
    system: Deployed, group: WorkerGroup
) -> None:
    own = {spec.name for spec in group.selection.of(system.app.topology)}
    for action in set(WORK) - set(SUBMIT) - {DEPTH}:
        assert may(system, group, action) == own


@GROUPS
def test_a_group_may_see_how_many_are_dead_of_its_own_queues_alone(
    system: Deployed, group: WorkerGroup
) -> None:
    specs = group.selection.of(system.app.topology)
    seen = {name for spec in specs for name in (spec.name, spec.dlq_name)}
    assert may(system, group, DEPTH) == {*seen, system.app.topology.quarantine_name}


@GROUPS
def test_a_group_may_send_to_other_queues_only_if_its_handlers_submit(
    system: Deployed, group: WorkerGroup
) -> None:
    topology = system.app.topology
    # A message whose time on SQS runs out is sent anew to the queue that it came from.
    own = {spec.name for spec in group.selection.of(topology)}
    parking = {spec.dlq_name for spec in group.selection.of(topology)} | {topology.quarantine_name}
    submitted = {spec.name for spec in topology.queues} if group.submits else set()
    assert may(system, group, "sqs:SendMessage") == own | parking | submitted


@GROUPS
def test_it_may_protect_the_tasks_of_its_cluster_and_do_nothing_else_to_ecs(
    system: Deployed, group: WorkerGroup
) -> None:
    [cluster] = resources(system.template, "AWS::ECS::Cluster")
    to_ecs = [
        statement
        for statement in allowed(system, system.task(group)["TaskRoleArn"])
        if any(action.startswith("ecs:") for action in listed(statement["Action"]))
    ]
    [statement] = to_ecs
    assert statement["Action"] == "ecs:UpdateTaskProtection"
    where = statement["Resource"]["Fn::Join"][1]
    assert where[-3:] == [":task/", {"Ref": cluster}, "/*"]


@GROUPS
def test_only_a_task_of_this_account_takes_its_role(system: Deployed, group: WorkerGroup) -> None:
    role = system.resource(system.task(group)["TaskRoleArn"])
    [statement] = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "ecs-tasks.amazonaws.com"}
    assert statement["Condition"]["StringEquals"] == {
        "aws:SourceAccount": {"Ref": "AWS::AccountId"}
    }


@GROUPS
def test_the_role_that_starts_it_may_write_its_own_log_alone(
    system: Deployed, group: WorkerGroup
) -> None:
    task = system.task(group)
    log_group = system.container(group)["LogConfiguration"]["Options"]["awslogs-group"]["Ref"]
    [statement] = allowed(system, task["ExecutionRoleArn"])
    assert set(statement["Action"]) == {"logs:CreateLogStream", "logs:PutLogEvents"}
    assert statement["Resource"] == {"Fn::GetAtt": [log_group, "Arn"]}


@GROUPS
def test_its_log_outlives_even_the_rollback_of_its_creation(
    system: Deployed, group: WorkerGroup
) -> None:
    log_group = system.container(group)["LogConfiguration"]["Options"]["awslogs-group"]["Ref"]
    assert system.template["Resources"][log_group]["DeletionPolicy"] == "Retain"


# --- the image -----------------------------------------------------------------------------------


@GROUPS
def test_all_groups_run_the_image_that_was_named(system: Deployed, group: WorkerGroup) -> None:
    assert system.container(group)["Image"] == IMAGE


def test_the_image_asset_holds_only_what_the_dockerfile_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assembly = cdk.App(outdir=str(tmp_path))
    stack = cdk.Stack(assembly, "Stack")
    task = ecs.FargateTaskDefinition(stack, "Task")
    task.add_container(
        "Worker", image=worker_image(stack, dockerfile="workers/Dockerfile", architecture="arm64")
    )
    assembly.synth()

    manifest = json.loads((tmp_path / "Stack.assets.json").read_text())
    [image] = manifest["dockerImages"].values()
    assert image["source"]["dockerFile"] == "workers/Dockerfile"
    assert image["source"]["platform"] == "linux/arm64"
    staged = {each.name for each in (tmp_path / image["source"]["directory"]).iterdir()}
    wanted = {Path(each).parts[0] for each in copied(read_dockerfile(ROOT / "workers/Dockerfile"))}
    assert staged - {".dockerignore"} == wanted


def test_git_and_virtual_environments_stay_out_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    for part in (".git", ".venv", "cdk.out", "shop/__pycache__"):
        (project / part).mkdir(parents=True)
        (project / part / "large").touch()
    (project / "Dockerfile").write_text("FROM scratch\n")
    (project / "shop" / "app.py").touch()
    monkeypatch.chdir(project)
    assembly = cdk.App(outdir=str(tmp_path / "out"))
    stack = cdk.Stack(assembly, "Stack")
    task = ecs.FargateTaskDefinition(stack, "Task")
    task.add_container(
        "Worker", image=worker_image(stack, dockerfile="Dockerfile", architecture="x86_64")
    )
    assembly.synth()

    [image] = json.loads((tmp_path / "out" / "Stack.assets.json").read_text())[
        "dockerImages"
    ].values()
    assert image["source"]["platform"] == "linux/amd64"
    [staged] = (tmp_path / "out").glob("asset.*")
    files = {each.relative_to(staged).as_posix() for each in staged.rglob("*") if each.is_file()}
    assert files == {"Dockerfile", "shop/app.py"}


def test_a_missing_dockerfile_is_answered_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"no such file: write one .*image="):
        JobSystem(bare_stack(), "Jobs", app=shop(), app_path=APP_PATH)


def test_an_app_that_no_other_process_could_find_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no other process could find the app 'shop'"):
        JobSystem(bare_stack(), "Jobs", app=shop(), deployment=Deployment())


def test_without_worker_groups_there_is_no_network_cluster_or_image() -> None:
    app = App("shop", long_delays=False)
    app.define("send-email", Params)
    stack = bare_stack()
    system = JobSystem(stack, "Jobs", app=app, deployment=ELSEWHERE)
    kinds = {each["Type"] for each in template_of(stack)["Resources"].values()}
    assert not any(kind.startswith(("AWS::EC2", "AWS::ECS")) for kind in kinds)
    assert system.services == {}
    assert system.vpc is None
