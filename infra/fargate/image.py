"""The workers' image, built from a Dockerfile of the user's at deployment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aws_cdk import IgnoreMode
from aws_cdk import aws_ecr_assets as assets
from aws_cdk import aws_ecs as ecs
from constructs import Construct

from headgate.jobs.deployment.surroundings import Architecture
from headgate.jobs.errors import ConfigurationError

_LEFT_OUT = (".git", ".venv", "cdk.out", "node_modules", "**/__pycache__")
"""Never part of an image, whatever ``.dockerignore`` says."""


_PLATFORMS: Mapping[Architecture, assets.Platform] = {
    "arm64": assets.Platform.LINUX_ARM64,
    "x86_64": assets.Platform.LINUX_AMD64,
}


def worker_image(
    scope: Construct, *, dockerfile: str, architecture: Architecture
) -> ecs.ContainerImage:
    """Return the image that a Dockerfile builds from CDK's working directory; one for all groups.

    Synthesis copies that directory, except what ``.dockerignore`` names, and needs no docker.

    Raises:
        ConfigurationError: there is no such Dockerfile.
    """
    here = Path.cwd()
    if not (here / dockerfile).is_file():
        raise ConfigurationError(
            f"the workers' image is built by {dockerfile!r}, and {here} has no such file: write "
            "one (docs/worker-service.md has it to copy), or name another "
            "(Deployment(dockerfile=...)), or an image (JobSystem(image=...)), or run workers "
            "elsewhere (Deployment(workers=()))"
        )
    asset = assets.DockerImageAsset(
        scope,
        "Image",
        directory=str(here),
        file=dockerfile,
        platform=_PLATFORMS[architecture],
        exclude=list(_LEFT_OUT),
        ignore_mode=IgnoreMode.DOCKER,
    )
    return ecs.ContainerImage.from_docker_image_asset(asset)
