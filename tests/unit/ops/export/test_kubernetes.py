"""The manifests run a worker group as ECS does."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from headgate.infra.fargate.worker_command import command, health_check
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.surroundings import Sidecar
from headgate.jobs.errors import ConfigurationError
from headgate.ops.export.files import kubernetes_files
from headgate.ops.export.kubernetes import manifests
from headgate.ops.export.target import reachable
from tests.unit.ops.export.shop import ACCOUNT, GROUPS, ORIGIN, REGION, target

KINDS = ("ServiceAccount", "Deployment", "PodDisruptionBudget", "ScaledObject")
URGENT, REST = GROUPS

Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def made() -> dict[tuple[str, str], Manifest]:
    """Return the manifests as Kubernetes reads them, by kind and name."""
    [file] = kubernetes_files(target(), ORIGIN, image="shop:1", policies=False)
    read = list(yaml.safe_load_all(file.text))
    return {(each["kind"], each["metadata"]["name"]): each for each in read}


def pod_of(made: dict[tuple[str, str], Manifest], group: WorkerGroup) -> Manifest:
    found: Manifest = made["Deployment", f"shop-prod-{group.name}"]["spec"]["template"]["spec"]
    return found


def worker_of(made: dict[tuple[str, str], Manifest], group: WorkerGroup) -> Manifest:
    [container] = pod_of(made, group)["containers"]
    found: Manifest = container
    return found


def test_each_group_has_one_manifest_of_each_kind(made: dict[tuple[str, str], Manifest]) -> None:
    expected = {(kind, f"shop-prod-{group.name}") for kind in KINDS for group in GROUPS}
    assert set(made) == expected | {("TriggerAuthentication", "shop-prod")}


def test_the_file_begins_with_its_origin_and_is_the_same_each_time() -> None:
    first, again = (
        kubernetes_files(target(), ORIGIN, image="shop:1", policies=False) for _ in range(2)
    )
    assert first == again
    assert first[0].name == "shop-prod.yaml"
    assert first[0].text.startswith(
        "# shop-prod, written by headgate 1.2.3:\n#   headgate export\n"
    )
    assert "# A note.\n" in first[0].text


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_a_container_has_the_command_and_variables_of_ecs(
    made: dict[tuple[str, str], Manifest], group: WorkerGroup
) -> None:
    container = worker_of(made, group)
    assert container["command"] == ["headgate"]
    assert container["args"] == command(reachable(group), emf=False)
    values = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    assert values == {
        "AWS_REGION": REGION,
        "CURRENCY": "EUR",
        **group.environment,
        "HEADGATE_STAGE": "prod",
        "HEADGATE_BUCKET": f"shop-prod-payloads-{ACCOUNT}-{REGION}",
        "HEADGATE_ACCOUNT": ACCOUNT,
        "HEADGATE_APP": "shop.app:app",
        "HEADGATE_STOP_TIMEOUT": f"{group.stop_timeout.total_seconds():g}",
    }


def test_a_secret_is_read_from_one_of_kubernetes(made: dict[tuple[str, str], Manifest]) -> None:
    [read] = [each for each in worker_of(made, REST)["env"] if "valueFrom" in each]
    assert read == {
        "name": "DATABASE_PASSWORD",
        "valueFrom": {"secretKeyRef": {"name": "shop-prod-rest", "key": "DATABASE_PASSWORD"}},
    }


def test_a_pod_ends_when_its_worker_has_drained(made: dict[tuple[str, str], Manifest]) -> None:
    assert pod_of(made, URGENT)["terminationGracePeriodSeconds"] == 30
    assert pod_of(made, REST)["terminationGracePeriodSeconds"] == 91  # 90.5 s, rounded up
    assert all(pod_of(made, group)["shareProcessNamespace"] for group in GROUPS)


def test_a_container_can_write_to_tmp_alone_and_is_nobody(
    made: dict[tuple[str, str], Manifest],
) -> None:
    container = worker_of(made, URGENT)
    assert container["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - the container's own
    assert pod_of(made, URGENT)["volumes"] == [{"name": "tmp", "emptyDir": {}}]


def test_a_container_has_the_size_of_its_task(made: dict[tuple[str, str], Manifest]) -> None:
    assert worker_of(made, URGENT)["resources"] == {
        "requests": {"cpu": "250m", "memory": "512Mi"},
        "limits": {"memory": "512Mi"},
    }
    assert worker_of(made, REST)["resources"]["requests"] == {"cpu": "500m", "memory": "1024Mi"}


def test_one_process_is_probed_by_http_and_several_by_a_program(
    made: dict[tuple[str, str], Manifest],
) -> None:
    for name, path in (
        ("startup", "/startupz"),
        ("liveness", "/healthz"),
        ("readiness", "/readyz"),
    ):
        one, several = (worker_of(made, group)[f"{name}Probe"] for group in GROUPS)
        assert one["httpGet"] == {"path": path, "port": 8080}
        assert several["exec"] == {"command": health_check(REST, path)}
    assert [port["containerPort"] for port in worker_of(made, REST)["ports"]] == [8080, 8081]


def test_a_service_account_assumes_the_role_of_its_group(
    made: dict[tuple[str, str], Manifest],
) -> None:
    account = made["ServiceAccount", "shop-prod-rest"]
    assert account["metadata"]["annotations"] == {
        "eks.amazonaws.com/role-arn": f"arn:aws:iam::{ACCOUNT}:role/shop-prod-rest-{REGION}"
    }
    assert pod_of(made, REST)["serviceAccountName"] == "shop-prod-rest"


def test_what_selects_pods_selects_those_of_one_group(
    made: dict[tuple[str, str], Manifest],
) -> None:
    for group in GROUPS:
        name = f"shop-prod-{group.name}"
        labels = made["Deployment", name]["spec"]["template"]["metadata"]["labels"]
        selector = made["Deployment", name]["spec"]["selector"]["matchLabels"]
        assert selector.items() <= labels.items()
        assert made["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"] == selector
        scaled = made["ScaledObject", name]["spec"]
        assert scaled["scaleTargetRef"] == {"name": name}
        [(key, value)] = selector.items()
        assert value == name
        assert scaled["triggers"][-1]["metadata"]["podSelector"] == f"{key}={value}"


def test_keda_asks_sqs_by_the_authentication_that_is_there(
    made: dict[tuple[str, str], Manifest],
) -> None:
    authentication = made["TriggerAuthentication", "shop-prod"]
    assert authentication["spec"] == {"podIdentity": {"provider": "aws"}}
    for group in GROUPS:
        triggers = made["ScaledObject", f"shop-prod-{group.name}"]["spec"]["triggers"]
        named = [each["authenticationRef"]["name"] for each in triggers[:-1]]
        assert set(named) == {authentication["metadata"]["name"]}


def test_a_sidecar_starts_before_the_worker_and_ends_after_it(
    made: dict[tuple[str, str], Manifest],
) -> None:
    assert pod_of(made, REST)["initContainers"] == [
        {
            "name": "traces",
            "image": "otel:1",
            "restartPolicy": "Always",
            "env": [{"name": "LEVEL", "value": "info"}],
        }
    ]
    assert "initContainers" not in pod_of(made, URGENT)


@pytest.mark.parametrize(("architecture", "label"), [("arm64", "arm64"), ("x86_64", "amd64")])
def test_pods_run_on_the_processors_that_the_image_is_built_for(
    architecture: str, label: str
) -> None:
    deployment = Deployment(architecture=architecture)  # type: ignore[arg-type]  # a parameter
    _, _, workers, *_ = manifests(target(deployment=deployment), "shop:1")
    pod = workers["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"kubernetes.io/arch": label}


def test_a_name_too_long_for_a_label_is_refused() -> None:
    long = WorkerGroup(name="x" * 54)
    with pytest.raises(ConfigurationError, match="labels and services may have 63"):
        list(manifests(target(deployment=Deployment(workers=(long,))), "shop:1"))


def test_a_name_too_long_for_a_role_in_that_region_is_refused() -> None:
    longest = "g" * (64 - len(f"shop-prod--{REGION}"))
    fits, over = (
        target(deployment=Deployment(workers=(WorkerGroup(name=name),)))
        for name in (longest, f"{longest}g")
    )
    _, account, *_ = manifests(fits, "shop:1")
    [role] = account["metadata"]["annotations"].values()
    assert role.endswith(f":role/shop-prod-{longest}-{REGION}")
    with pytest.raises(ConfigurationError, match="would have 65 characters; IAM allows 64"):
        list(manifests(over, "shop:1"))


def test_where_functions_run_all_jobs_there_is_nothing_to_export() -> None:
    mailer = ConsumerGroup(name="mailer", handler="x.handler")
    with pytest.raises(ConfigurationError, match="functions run all jobs of shop-prod"):
        target(deployment=Deployment(workers=(), consumers=(mailer,)))


def test_a_deployment_whose_workers_run_elsewhere_has_one_group_there() -> None:
    made = manifests(target(deployment=Deployment(workers=())), "shop:1")
    names = [each["metadata"]["name"] for each in made if each["kind"] == "Deployment"]
    assert names == ["shop-prod-workers"]


def _filled_in(text: str, known: dict[str, str]) -> str:
    """Return what Kubernetes makes of a value: ``$(NAME)`` is replaced, and ``$$`` is a ``$``."""
    return re.sub(
        r"\$(\$|\((.*?)\))",
        lambda found: "$" if found[1] == "$" else known.get(found[2], found[0]),
        text,
    )


def test_values_keep_their_dollars_and_name_no_other_variable() -> None:
    values = {"LITERAL": "$(DATABASE_PASSWORD) $$ $$(X) $5 $", "PLAIN": "100%"}
    sidecar = Sidecar(name="traces", image="otel:1", environment=values, command=("$(X)",))
    group = WorkerGroup(name="all", environment=values, sidecars=(sidecar,))
    made = list(manifests(target(deployment=Deployment(workers=(group,))), "shop:1"))
    [pod] = [each["spec"]["template"]["spec"] for each in made if each["kind"] == "Deployment"]

    for container in (*pod["containers"], *pod["initContainers"]):
        found = {each["name"]: each["value"] for each in container["env"]}
        assert found["PLAIN"] == "100%"
        read = _filled_in(found["LITERAL"], {"DATABASE_PASSWORD": "secret", "X": "x"})
        assert read == values["LITERAL"]
    assert pod["initContainers"][0]["args"] == ["$$(X)"]
