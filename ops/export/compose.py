"""An app's workers as services of Compose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headgate.infra.fargate.worker_command import (
    CHECK_EVERY_S,
    CHECK_PATIENCE_S,
    CHECK_RETRIES,
    STARTING_S,
    USER,
    command,
    health_check,
)
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.ops.export.target import Target, reachable

_CPU_UNITS = 1024  # of a vCPU

_PASSED_ON = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_ENDPOINT_URL", "HEADGATE_ALLOW_HTTP"),
)
"""Variables whose values are those of the shell that runs Compose, if they are set there."""


def compose_file(target: Target, image: str | None) -> Mapping[str, Any]:
    """Return the file of an app's workers: a service for each group, and for each sidecar.

    https://docs.docker.com/reference/compose-file/services/

    Args:
        target: the app and its place.
        image: the workers' image; None: Compose builds it from the deployment's Dockerfile.

    Raises:
        ConfigurationError: a name is longer than DNS allows.
    """
    services: dict[str, Any] = {}
    for group in target.groups:
        services[group.name] = _service(target, group, image)
        for sidecar in group.sidecars:
            services[f"{group.name}-{sidecar.name}"] = {
                "image": sidecar.image,
                **({"command": _escaped(sidecar.command)} if sidecar.command else {}),
                "environment": _values(sidecar.environment),
                # The worker reaches it at 127.0.0.1, as on ECS.
                "network_mode": f"service:{group.name}",
                "restart": "unless-stopped",
            }
    return {"name": target.name, "services": services}


def _service(target: Target, group: WorkerGroup, image: str | None) -> dict[str, Any]:
    target.service(group)  # checks the name
    built = {"context": ".", "dockerfile": target.deployment.dockerfile}
    replicas = max(group.min_tasks, 1)
    return {
        **({"build": built} if image is None else {"image": image}),
        "entrypoint": ["headgate"],
        "command": _escaped(command(reachable(group), emf=False)),
        "init": True,
        "stop_grace_period": f"{math.ceil(group.stop_timeout.total_seconds())}s",
        "restart": "unless-stopped",
        "environment": {
            **_values(target.variables(group)),
            **dict.fromkeys((*_PASSED_ON, *target.secrets(group))),
        },
        "healthcheck": {
            "test": ["CMD", *_escaped(health_check(group))],
            "interval": f"{CHECK_EVERY_S}s",
            "timeout": f"{CHECK_PATIENCE_S}s",
            "retries": CHECK_RETRIES,
            "start_period": f"{STARTING_S}s",
        },
        "user": USER,
        "read_only": True,
        "tmpfs": ["/tmp"],  # noqa: S108 - the container's own
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "cpus": group.cpu / _CPU_UNITS,
        "mem_limit": f"{group.memory_mib}m",
        # A sidecar is in the network of one container.
        **({"scale": replicas} if replicas > 1 and not group.sidecars else {}),
    }


def _values(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: _literal(value) for name, value in variables.items()}


def _escaped(words: Any) -> list[str]:
    return [_literal(word) for word in words]


def _literal(text: str) -> str:
    """Return a text in which Compose fills in no variables."""
    return text.replace("$", "$$")
