"""A system of another stack is granted and watched as if it had been created in this one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from headgate import App, Existing, ExistingQueue, Priority
from headgate.infra import IJobSystem, JobSystem, QueueSelection
from headgate.infra.checks.nag import add_nag
from headgate.jobs.errors import ConfigurationError, UnknownQueue
from tests.infra.checks.test_nag import findings
from tests.infra.conftest import ELSEWHERE, NO_BUNDLING, Params
from tests.infra.everything import everything
from tests.infra.templates import listed, template_of
from tests.support.cloudformation import ACCOUNT, REGION, Resolved, arn_of, resolve
from tests.support.iam import Policies

GRANTS: dict[str, Callable[[IJobSystem, iam.Role], object]] = {
    "submit": lambda system, role: system.grant_submit(role),
    "unique": lambda system, role: system.grant_submit(role, unique=True),
    "follow": lambda system, role: system.grant_follow(role),
    "work": lambda system, role: system.grant_work(role),
    "work-on-mail": lambda system, role: system.grant_work(
        role, selection=QueueSelection(queues=("mail",))
    ),
    "view": lambda system, role: system.grant_view(role),
    "operate": lambda system, role: system.grant_operate(role),
    "manage-schedules": lambda system, role: system.grant_manage_schedules(role),
}
KEY = arn_of("AWS::KMS::Key", "1234")
FAR = {"account": "111122223333", "region": "ap-southeast-1"}


def a_stack(**options: Any) -> cdk.Stack:
    return cdk.Stack(cdk.App(context=NO_BUNDLING), "Web", **options)


def imported(stack: cdk.Stack, app: App | None = None, **options: Any) -> IJobSystem:
    return JobSystem.from_app(stack, "Jobs", app=app or everything(), **options)


def granted(stack: cdk.Stack, system: IJobSystem) -> Resolved:
    """Return the template of a stack in which a role has each of the grants."""
    tasks = iam.ServicePrincipal("ecs-tasks.amazonaws.com")
    for name, grant in GRANTS.items():
        grant(system, iam.Role(stack, name, assumed_by=tasks, role_name=name))
    return resolve(template_of(stack))


def permissions(template: Resolved, name: str) -> set[tuple[str, str, str]]:
    """Return the actions that a role is allowed, each with its resource and conditions."""
    return {
        (action, resource, json.dumps(statement.get("Condition"), sort_keys=True))
        for statement in Policies.of(template).identity[arn_of("AWS::IAM::Role", name)]
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


# --- grants --------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["aws-keys", "own-key"])
def both(request: pytest.FixtureRequest) -> tuple[Resolved, Resolved]:
    """Return the grants of a created system, and those of the same system imported elsewhere."""
    here, elsewhere = a_stack(), a_stack()
    keys: dict[str, Any] = {}
    if request.param == "own-key":
        keys = {"encryption_key": kms.Key.from_key_arn(here, "Key", KEY)}
    created = JobSystem(here, "Jobs", app=everything(), deployment=ELSEWHERE, **keys)
    if keys:
        keys = {"encryption_key": kms.Key.from_key_arn(elsewhere, "Key", KEY)}
    return granted(here, created), granted(elsewhere, imported(elsewhere, **keys))


@pytest.mark.parametrize("name", GRANTS)
def test_a_grant_of_an_imported_system_is_that_of_the_created_one(
    name: str, both: tuple[Resolved, Resolved]
) -> None:
    created, elsewhere = both
    assert permissions(elsewhere, name) == permissions(created, name) != set()


def test_an_imported_system_adds_policies_alone(both: tuple[Resolved, Resolved]) -> None:
    _, elsewhere = both
    assert {each["Type"] for each in elsewhere.resources.values()} == {
        "AWS::IAM::Role",
        "AWS::IAM::Policy",
    }


def test_grants_and_keys_of_another_region_name_that_region() -> None:
    stack = a_stack(env=cdk.Environment(account=FAR["account"], region="eu-central-1"))
    key = kms.Key.from_key_arn(stack, "Key", KEY.replace(REGION, FAR["region"]))
    system = imported(stack, region=FAR["region"], encryption_key=key)
    allowed = permissions(granted(stack, system), "work")
    regions = {resource.split(":")[3] for _, resource, _ in allowed}
    assert regions == {FAR["region"], ""}, "S3 and IAM name none"
    through = {
        json.loads(condition)["StringEquals"]["kms:ViaService"]
        for action, _, condition in allowed
        if action.startswith("kms:")
    }
    services = ("sqs", "dynamodb", "s3")
    assert through == {f"{service}.{FAR['region']}.amazonaws.com" for service in services}


def test_a_role_of_another_account_is_refused_with_the_way_to_do_it() -> None:
    stack = a_stack(env=cdk.Environment(account="999999999999", region=REGION))
    system = imported(stack, account=ACCOUNT)
    role = iam.Role(stack, "Role", assumed_by=iam.AccountRootPrincipal())
    for grant in GRANTS.values():
        with pytest.raises(ConfigurationError, match=f"in the account {ACCOUNT}, and a role of 99"):
            grant(system, role)


def test_cdk_nag_finds_nothing_in_a_stack_that_imports(tmp_path: Path) -> None:
    assembly = cdk.App(context=NO_BUNDLING, outdir=str(tmp_path))
    add_nag(assembly)
    stack = cdk.Stack(assembly, "Web")
    granted(stack, imported(stack))
    assert findings(assembly) == set()


def test_an_app_without_schedules_has_none_to_manage_and_no_failed_firings() -> None:
    app = App("shop", long_delays=False)
    app.define("send-email", Params)
    stack = a_stack()
    system = imported(stack, app)
    assert system.failed_firings is None
    role = iam.Role(stack, "Role", assumed_by=iam.AccountRootPrincipal())
    with pytest.raises(ConfigurationError, match="no schedules: declare it with long_delays=True"):
        system.grant_manage_schedules(role)


# --- what can't be had ---------------------------------------------------------------------------


def test_what_does_not_follow_from_the_app_is_refused_with_where_it_is() -> None:
    system = imported(a_stack())
    created = JobSystem(a_stack(), "Jobs", app=everything(), deployment=ELSEWHERE)
    own = {name for name in dir(created) if not name.startswith("_")} - set(dir(IJobSystem))
    for name in own - {"app", "from_app"}:
        with pytest.raises(AttributeError, match=f"an imported JobSystem has no {name}: .* stack"):
            getattr(system, name)
    with pytest.raises(AttributeError, match="object has no attribute 'tabel'"):
        _ = system.tabel  # type: ignore[attr-defined]  # mypy reports the misspelling as well


def test_an_app_without_job_types_is_not_imported() -> None:
    with pytest.raises(ConfigurationError, match="has no job types"):
        imported(a_stack(), App("shop"))


def test_a_key_of_another_region_is_refused() -> None:
    stack = a_stack()
    key = kms.Key.from_key_arn(stack, "Key", KEY)
    with pytest.raises(ConfigurationError, match=f"key is in {REGION}, and the system in ap-south"):
        imported(stack, region=FAR["region"], encryption_key=key)


# --- queues --------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["created", "imported"])
def system(request: pytest.FixtureRequest) -> IJobSystem:
    stack = a_stack()
    if request.param == "imported":
        return imported(stack)
    return JobSystem(stack, "Jobs", app=everything(), deployment=ELSEWHERE)


def test_a_queue_is_named_by_its_group_and_priority(system: IJobSystem) -> None:
    for queue in (system.queue("jobs", Priority.HIGH), system.queue("jobs", "high")):
        assert queue.node.path.endswith("jobs-high")
        assert not queue.fifo
    assert system.dead_letter_queue("jobs", Priority.HIGH).node.path.endswith("jobs-high-dlq")


def test_the_only_priority_of_a_group_need_not_be_named(system: IJobSystem) -> None:
    assert system.queue("ledger").fifo
    assert system.queue("ledger").node.path.endswith("ledger-normal")
    assert system.dead_letter_queue("mail").node.path.endswith("mail-normal-dlq")


def test_a_queue_that_the_app_lacks_is_answered_with_the_nearest(system: IJobSystem) -> None:
    with pytest.raises(UnknownQueue, match="no queue 'leger': did you mean 'ledger'"):
        system.queue("leger")
    with pytest.raises(UnknownQueue, match=r"'mail' has no priority 'low': .* normal"):
        system.queue("mail", Priority.LOW)
    with pytest.raises(UnknownQueue, match=r"'jobs' has the priorities .*: name one"):
        system.queue("jobs")


def test_queues_are_cdk_s_own_and_can_be_used_as_such(system: IJobSystem) -> None:
    stack = cdk.Stack.of(system)
    metric = system.queue("mail").metric_approximate_number_of_messages_visible()
    assert metric.namespace == "AWS/SQS"
    role = iam.Role(stack, "Reader", assumed_by=iam.AccountRootPrincipal())
    assert system.queue("mail").grant(role, "sqs:GetQueueAttributes").success
    assert system.quarantine.queue_arn != system.failed_sweeps.queue_arn
    assert system.failed_firings is not None


def test_what_exists_is_referred_to_by_its_own_name() -> None:
    theirs = f"arn:aws:sqs:{FAR['region']}:999999999999:letters"
    found = ExistingQueue(queue=theirs, dead_letters="letters-dead")
    app = App("shop", existing=Existing(queues={"mail": {"normal": found}}, table="jobs"))
    app.queue("mail", priorities=["normal"]).define("send-letter", Params)
    system = imported(a_stack(), app, **FAR)
    assert system.queue("mail").queue_arn == theirs
    assert system.dead_letter_queue("mail").queue_name == "letters-dead"
    assert system.table.table_name == "jobs"


@pytest.mark.parametrize(
    ("place", "options"),
    [({"env": FAR}, {}), ({}, {"region": FAR["region"]})],
    ids=["the stack's", "the system's"],
)
def test_what_exists_in_another_region_is_refused_by_its_name(
    place: dict[str, Any], options: dict[str, Any]
) -> None:
    theirs = "arn:aws:dynamodb:eu-central-1:111122223333:table/jobs"
    app = App("shop", existing=Existing(table=theirs))
    app.define("send-letter", Params)
    with pytest.raises(ConfigurationError, match=f"{theirs} is in another region than ap-south"):
        imported(a_stack(**place), app, **options)
    imported(a_stack(), app)  # the region of this stack is not known
    imported(a_stack(**place), app, region="eu-central-1")
