"""Exports say of an app what CDK and the provisioning of a local stack say of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headgate import App, Encryption, Priority, Signing, cron
from headgate.infra.exported.synthesis import exported_template, policy_documents
from headgate.jobs.aws.descriptions import (
    EXPIRY,
    lifecycle_rules,
    table_properties,
    tags_of,
)
from headgate.jobs.aws.queue_descriptions import (
    QueueDescription,
    create_attributes,
    failed_firings,
    failed_sweeps,
    pairs,
    quarantine,
    redrive_allow_policy,
)
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.ops.export.artifacts import ExportOrigin
from headgate.ops.export.cloudformation import FUNCTION, cloudformation_template
from headgate.ops.export.policies import resolved
from headgate.ops.export.resources import Resources, references, resources_of
from headgate.ops.export.terraform.composed import parts_of
from headgate.ops.export.terraform.document import terraform_configuration
from headgate.ops.export.terraform.references import TYPES, References
from tests.infra.conftest import Params
from tests.infra.templates import listed
from tests.support.cloudformation import ACCOUNT, REGION, Resolved, resolve

ORIGIN = ExportOrigin(command="headgate export", app="shop-prod", version="1.2.3")
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234"
DEPLOYMENT = Deployment(
    workers=(
        WorkerGroup(),
        WorkerGroup(name="batch", queues=("ledger",), submits=False),
    ),
    alerts_to=("oncall@example.com",),
)
SCHEMA: Mapping[str, Any] = json.loads(Path(__file__).with_name("provider.json").read_text())
"""The arguments and blocks of Terraform's provider, version 6, for the types that are used here:
``true`` for one that is required. `ops.export.terraform` may name no others."""

EXPRESSION = re.compile(r"\$\{(?:filebase64sha256\()?([a-z0-9_.]+)\)?\}")


@pytest.fixture(scope="module")
def app() -> App:
    """Return an app with a queue of each kind and all triggers; more would take more time."""
    app = App("shop", stage="prod", signing=Signing(), encryption=Encryption())
    mail = app.queue("mail", priorities=[Priority.HIGH])
    report = mail.define("report", Params, priority=Priority.HIGH, schedule=cron("0 8 * * ? *"))
    ledger = app.queue("ledger", fifo=True, priorities=[Priority.NORMAL])
    ledger.define("book", Params, group_by=lambda params: str(params.days))
    app.event_rule("order-placed", pattern={"source": ["shop"]}, job=report)
    return app


@pytest.fixture(scope="module")
def resources(app: App) -> Resources:
    return resources_of(exported_template(app, DEPLOYMENT))


@pytest.fixture(scope="module")
def terraform(app: App, resources: Resources) -> Mapping[str, Any]:
    made = terraform_configuration(resources, app.topology, ORIGIN)
    found: dict[str, Any] = json.loads(json.dumps(made))
    return found


@pytest.fixture(scope="module")
def cloudformation(app: App, resources: Resources) -> Mapping[str, Any]:
    return cloudformation_template(resources, app.topology, ORIGIN)


# --- queues, table and bucket --------------------------------------------------------------------


def described(app: App) -> Iterator[tuple[QueueDescription, str | None]]:
    """Yield all queues of the app, each with the ARN of its dead-letter queue if it has one."""
    topology = app.topology
    for queue, dead in pairs(topology):
        yield dead, None
        yield queue, f"arn:aws:sqs:{REGION}:{ACCOUNT}:{dead.name}"
    for describe in (quarantine, failed_firings, failed_sweeps):
        yield describe(topology), None


TERRAFORMS = {
    "MessageRetentionPeriod": "message_retention_seconds",
    "VisibilityTimeout": "visibility_timeout_seconds",
    "ReceiveMessageWaitTimeSeconds": "receive_wait_time_seconds",
    "SqsManagedSseEnabled": "sqs_managed_sse_enabled",
    "FifoQueue": "fifo_queue",
    "DeduplicationScope": "deduplication_scope",
    "FifoThroughputLimit": "fifo_throughput_limit",
    "RedrivePolicy": "redrive_policy",
    "RedriveAllowPolicy": "redrive_allow_policy",
}


def settled(template: Mapping[str, Any]) -> Resolved:
    """Return a template's resources with all references resolved, but for the functions' code."""
    coded = {
        key: {**each, "Properties": {**each["Properties"], "Code": {}}}
        if each["Type"] == FUNCTION
        else each
        for key, each in template["Resources"].items()
    }
    return resolve({"Resources": coded})


def _value(text: str) -> Any:
    """Return a queue's attribute as a template has it: a number, a boolean, an object, or text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def applied(text: Any, terraform: Mapping[str, Any]) -> Any:
    """Return a text as Terraform would apply it: with ARNs of queues, account and region."""
    queues = terraform["resource"]["aws_sqs_queue"]
    values = {
        "data.aws_caller_identity.current.account_id": ACCOUNT,
        "data.aws_region.current.id": REGION,
        "data.aws_partition.current.partition": "aws",
    } | {
        f"aws_sqs_queue.{name}.arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue['name']}"
        for name, queue in queues.items()
    }
    return EXPRESSION.sub(lambda found: values[found[1]], text)


def test_terraforms_queues_have_every_attribute_of_the_description(
    app: App, terraform: Mapping[str, Any]
) -> None:
    made = {each["name"]: each for each in terraform["resource"]["aws_sqs_queue"].values()}
    for queue, dead_letters_arn in described(app):
        found = made.pop(queue.name)
        wanted = {
            name: _value(text) for name, text in create_attributes(queue, dead_letters_arn).items()
        }
        if queue.takes_from is not None:
            source = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue.takes_from}"
            wanted["RedriveAllowPolicy"] = redrive_allow_policy(source)
        for name in ("redrive_policy", "redrive_allow_policy"):
            if name in found:
                found[name] = json.loads(applied(found[name], terraform))
        assert {key: value for key, value in found.items() if key in TERRAFORMS.values()} == {
            TERRAFORMS[name]: value for name, value in wanted.items()
        }
        assert found["tags"] == tags_of(app.topology)
    assert made == {}


def test_cloudformations_queues_have_every_attribute_of_the_description(
    app: App, cloudformation: Mapping[str, Any]
) -> None:
    queues = settled(cloudformation).of_type("AWS::SQS::Queue")
    made = {each["QueueName"]: each for each in queues.values()}
    assert made.keys() == {queue.name for queue, _ in described(app)}
    for queue, dead_letters_arn in described(app):
        for name, text in create_attributes(queue, dead_letters_arn).items():
            wanted = _value(text)
            assert made[queue.name][name] == wanted


def test_terraforms_table_has_the_keys_index_and_expiry_of_the_description(
    app: App, terraform: Mapping[str, Any]
) -> None:
    [table] = terraform["resource"]["aws_dynamodb_table"].values()
    wanted = table_properties(app.topology.table_name)
    [index] = wanted["GlobalSecondaryIndexes"]
    assert table["name"] == wanted["TableName"]
    assert table["billing_mode"] == wanted["BillingMode"]
    assert [table["hash_key"], table["range_key"]] == [
        each["AttributeName"] for each in wanted["KeySchema"]
    ]
    assert {each["name"]: each["type"] for each in table["attribute"]} == {
        each["AttributeName"]: each["AttributeType"] for each in wanted["AttributeDefinitions"]
    }
    assert table["global_secondary_index"] == [
        {
            "name": index["IndexName"],
            "hash_key": index["KeySchema"][0]["AttributeName"],
            "range_key": index["KeySchema"][1]["AttributeName"],
            "projection_type": index["Projection"]["ProjectionType"],
            "non_key_attributes": index["Projection"]["NonKeyAttributes"],
        }
    ]
    assert table["ttl"] == {"attribute_name": EXPIRY, "enabled": True}
    assert table["point_in_time_recovery"] == {"enabled": True}


def test_terraforms_bucket_is_private_and_its_objects_expire(
    app: App, terraform: Mapping[str, Any]
) -> None:
    made = terraform["resource"]
    [bucket] = made["aws_s3_bucket"].values()
    assert applied(bucket["bucket"], terraform) == app.topology.bucket.name_in(ACCOUNT, REGION)
    [private] = made["aws_s3_bucket_public_access_block"].values()
    assert [value for name, value in private.items() if name != "bucket"] == [True] * 4
    [expiring] = made["aws_s3_bucket_lifecycle_configuration"].values()
    assert expiring["rule"] == [
        {
            "id": rule["ID"],
            "status": rule["Status"],
            "filter": {"prefix": rule["Filter"]["Prefix"]},
            "expiration": {"days": rule["Expiration"]["Days"]},
        }
        for rule in lifecycle_rules(app.topology)
    ]


def test_what_holds_jobs_is_protected_in_both(
    terraform: Mapping[str, Any], cloudformation: Mapping[str, Any]
) -> None:
    for kind in ("AWS::SQS::Queue", "AWS::DynamoDB::GlobalTable", "AWS::S3::Bucket"):
        for each in cloudformation["Resources"].values():
            if each["Type"] == kind:
                assert each["DeletionPolicy"] == "RetainExceptOnCreate"
        for each in terraform["resource"][TYPES[kind]].values():
            assert each["lifecycle"] == {"prevent_destroy": True}


# --- the whole -----------------------------------------------------------------------------------


def test_the_template_refers_to_nothing_that_it_lacks(
    cloudformation: Mapping[str, Any],
) -> None:
    known = {*cloudformation["Resources"], *cloudformation["Parameters"]}
    for part in ("Resources", "Outputs"):
        named = set(references(cloudformation[part]))
        assert {name for name in named if not name.startswith("AWS::")} <= known
    for each in cloudformation["Resources"].values():
        assert set(each.get("DependsOn", ())) <= known


def test_nothing_of_cdks_own_is_left(
    cloudformation: Mapping[str, Any], terraform: Mapping[str, Any]
) -> None:
    for part in (cloudformation["Resources"], terraform["resource"]):
        text = json.dumps(part)
        assert "cdk" not in text.lower()
        assert "Custom::" not in text


def test_every_resource_of_the_template_is_one_of_terraforms(
    resources: Resources, terraform: Mapping[str, Any]
) -> None:
    made = {f"{kind}.{name}" for kind, named in terraform["resource"].items() for name in named}
    for resource in resources.values():
        parts = [part.address for part in parts_of(resource, References(resources=resources))]
        assert parts
        assert {*parts} <= made
        made -= {*parts}
    assert made == set()


def test_every_expression_of_terraforms_names_what_is_there(
    terraform: Mapping[str, Any],
) -> None:
    made = terraform["resource"]
    text = json.dumps(terraform)
    named = EXPRESSION.findall(text)
    assert text.count("${") == len(named)
    for each in named:
        first, second, *_ = each.split(".")
        places = {**made, "data": terraform["data"], "var": terraform["variable"]}
        known = places.get(first)
        assert known is not None, each
        assert second in known, each
    for each in (part for kind in made.values() for part in kind.values()):
        for address in each.get("depends_on", ()):
            kind, _, name = address.partition(".")
            assert name in made[kind]


def test_every_argument_is_one_of_the_providers_and_none_that_is_required_is_missing(
    terraform: Mapping[str, Any],
) -> None:
    for kind, named in terraform["resource"].items():
        for name, arguments in named.items():
            own = {key: each for key, each in arguments.items() if key not in META}
            assert list(_unfit(own, SCHEMA[kind])) == [], f"{kind}.{name}"


META = ("depends_on", "lifecycle")


def _unfit(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the provider would refuse of a resource's arguments, or of a block's."""
    for name in schema.keys() - arguments.keys() - {"//"}:
        if schema[name] is True or (isinstance(schema[name], dict) and schema[name].get("//")):
            yield f"{name} is missing"
    for name, value in arguments.items():
        if name not in schema:
            yield f"{name} is unknown"
        elif isinstance(schema[name], dict):
            for block in listed(value):
                yield from _unfit(block, schema[name])


def test_delays_schedules_and_events_reach_the_bridge(terraform: Mapping[str, Any]) -> None:
    made = terraform["resource"]
    functions = {each["function_name"]: each for each in made["aws_lambda_function"].values()}
    assert {"shop-prod-bridge", "shop-prod-sweep"} == functions.keys()
    assert len(made["aws_scheduler_schedule"]) == 2  # the report's, and the sweep's
    assert len(made["aws_cloudwatch_event_target"]) == 1
    assert len(made["aws_lambda_permission"]) == 1


def test_outputs_name_every_queue_and_policy(app: App, terraform: Mapping[str, Any]) -> None:
    outputs = set(terraform["output"])
    for spec in app.topology.queues:
        name = f"{spec.group}_{spec.priority}"
        assert {f"{name}_url", f"{name}_arn", f"{name}_dead_letters_url"} <= outputs
    # What is too long for one policy is in several, with numbers.
    policies = {re.sub(r"(_\d+)?_arn$", "", each) for each in outputs if each[:7] == "policy_"}
    assert policies == {
        f"policy_{name}"
        for name in ("submit", "follow", "view", "operate", "work_workers", "work_batch")
    }


# --- permissions ---------------------------------------------------------------------------------


def allowed(statements: Any) -> set[tuple[str, str, str]]:
    """Return the actions that statements allow, each with its resource and conditions.

    The signing key is a reference in the stack that makes it, and a name elsewhere.
    """
    return {
        (
            action,
            "signing key" if action == "secretsmanager:GetSecretValue" else resource,
            json.dumps(statement.get("Condition"), sort_keys=True),
        )
        for statement in statements
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def test_the_policies_of_kubernetes_allow_what_those_of_the_template_do(
    app: App, cloudformation: Mapping[str, Any]
) -> None:
    documents = policy_documents(app, DEPLOYMENT, account=ACCOUNT, region=REGION)
    template: dict[str, set[tuple[str, str, str]]] = {}
    for each in settled(cloudformation).of_type("AWS::IAM::ManagedPolicy").values():
        # What is too long for one policy is in several, with numbers behind the region.
        name = each["ManagedPolicyName"].partition(REGION)[0] + REGION
        template.setdefault(name, set()).update(allowed(each["PolicyDocument"]["Statement"]))
    made = {name: allowed(resolved(each, "aws")["Statement"]) for name, each in documents.items()}
    assert made.keys() == template.keys()
    for name, permissions in made.items():
        assert permissions == template[name] != set(), name
