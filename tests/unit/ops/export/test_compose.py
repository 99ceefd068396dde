"""The file for Compose runs a worker group as ECS does."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from headgate.infra.fargate.worker_command import command, health_check
from headgate.ops.export.files import compose_files
from headgate.ops.export.target import reachable
from tests.unit.ops.export.shop import ACCOUNT, GROUPS, ORIGIN, REGION, target

URGENT, REST = GROUPS


def written(image: str | None = "shop:1") -> str:
    [file] = compose_files(target(), ORIGIN, image=image)
    assert file.name == "compose.yaml"
    return file.text


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    read = yaml.safe_load(written())
    assert read["name"] == "shop-prod"
    found: dict[str, Any] = read["services"]
    return found


def test_each_group_and_each_sidecar_is_a_service(services: dict[str, Any]) -> None:
    assert list(services) == ["urgent", "rest", "rest-traces"]
    assert services["rest-traces"] == {
        "image": "otel:1",
        "environment": {"LEVEL": "info"},
        "network_mode": "service:rest",
        "restart": "unless-stopped",
    }


def test_a_service_runs_the_workers_command_under_an_init(services: dict[str, Any]) -> None:
    for group in GROUPS:
        service = services[group.name]
        assert (service["entrypoint"], service["init"]) == (["headgate"], True)
        assert service["command"] == command(reachable(group), emf=False)
        test = service["healthcheck"]["test"]
        assert test == ["CMD", *health_check(group)]


def test_a_service_is_killed_after_its_worker_has_drained(services: dict[str, Any]) -> None:
    assert services["urgent"]["stop_grace_period"] == "30s"
    assert services["rest"]["stop_grace_period"] == "91s"


def test_values_keep_their_dollars_and_secrets_come_from_the_shell(
    services: dict[str, Any],
) -> None:
    environment = services["rest"]["environment"]
    assert environment["PRICE"] == "$$5 at 100%"
    assert environment["HEADGATE_BUCKET"] == f"shop-prod-payloads-{ACCOUNT}-{REGION}"
    assert environment["HEADGATE_APP"] == "shop.app:app"
    passed_on = {name for name, value in environment.items() if value is None}
    assert {"AWS_SECRET_ACCESS_KEY", "DATABASE_PASSWORD", "AWS_ENDPOINT_URL"} <= passed_on


def test_a_service_can_write_to_tmp_alone_and_is_nobody(services: dict[str, Any]) -> None:
    service = services["urgent"]
    assert (service["user"], service["read_only"], service["tmpfs"]) == ("10001", True, ["/tmp"])  # noqa: S108 - the container's own
    assert (service["cap_drop"], service["security_opt"]) == (
        ["ALL"],
        ["no-new-privileges:true"],
    )
    assert (service["cpus"], service["mem_limit"]) == (0.25, "512m")


def test_as_many_run_as_always_should_but_for_those_with_sidecars(
    services: dict[str, Any],
) -> None:
    assert services["urgent"]["scale"] == 2
    assert "scale" not in services["rest"]


def test_without_an_image_compose_builds_that_of_the_deployment() -> None:
    service = yaml.safe_load(written(image=None))["services"]["urgent"]
    assert service["build"] == {"context": ".", "dockerfile": "Dockerfile"}
    assert "image" not in service
