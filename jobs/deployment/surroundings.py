"""The surroundings of an app's code on AWS: variables, secrets, and a network that exists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.kinds import check_kinds

Architecture = Literal["arm64", "x86_64"]

LOG_RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""Days for which CloudWatch Logs can keep a log group's lines.
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html"""

SSM = "ssm:"
"""Prefix of a secret that is a parameter of Systems Manager's."""

_SECRET = re.compile(r"arn:[\w-]+:secretsmanager:[\w-]+:\d{12}:secret:[^:]+(:[^:]+)?")
_PARAMETER = re.compile(r"ssm:[\w./-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = (
    *("HEADGATE_APP", "HEADGATE_STAGE", "HEADGATE_BUCKET", "HEADGATE_ACCOUNT"),
    *("HEADGATE_CONCURRENCY", "HEADGATE_EMF", "HEADGATE_STOP_TIMEOUT"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingVpc:
    """A VPC of yours for the workers; nothing is changed in it.

    Raises:
        ConfigurationError: it has no subnets, or an id is not one of a VPC, subnet or group.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    id: str
    """The VPC's id, as in ``vpc-0a1b2c3d``."""
    subnets: tuple[str, ...]
    """The ids of the tasks' subnets; they have to reach AWS's services by NAT or endpoints, or by
    ``public``."""
    security_groups: tuple[str, ...] = ()
    """The ids of security groups for the tasks, besides their own; such as the one that a database
    lets in."""
    public: bool = False
    """True if the subnets are public, so that each task needs a public address."""

    def __post_init__(self) -> None:
        check_kinds("the deployment's vpc", self)
        if not self.subnets:
            raise ConfigurationError("the deployment's vpc: name at least one of its subnets")
        named = [("vpc-", self.id)]
        named += [("subnet-", each) for each in self.subnets]
        named += [("sg-", each) for each in self.security_groups]
        for prefix, value in named:
            if not value.startswith(prefix):
                raise ConfigurationError(
                    f"the deployment's vpc: {value!r} is not an id: it begins with {prefix!r}"
                )


def check_surroundings(
    owner: str, environment: Mapping[str, str], secrets: Mapping[str, str]
) -> None:
    """Check environment variables, and secrets by the variables that hold them.

    Raises:
        ConfigurationError: one is no name of a variable, one that the deployment sets itself, or
            both; or a secret is neither the ARN of one nor the name of a parameter.
    """
    for name in (*environment, *secrets):
        if not _VARIABLE.fullmatch(name):
            raise ConfigurationError(f"{owner}: {name!r} is not the name of a variable")
        if name in _OURS:
            raise ConfigurationError(f"{owner}: {name} is set by the deployment itself")
        if name in environment and name in secrets:
            raise ConfigurationError(f"{owner}: {name} is in environment and in secrets")
    for name, source in secrets.items():
        if not _SECRET.fullmatch(source) and not _PARAMETER.fullmatch(source):
            raise ConfigurationError(
                f"{owner}: {name} must be a secret's whole ARN, with its six random characters and "
                "if need be :KEY of its JSON, or ssm:NAME of a parameter"
            )


def secret_services(secrets: Mapping[str, str]) -> frozenset[str]:
    """Return the services that hold these secrets, by the names of their endpoints."""
    return frozenset(
        "ssm" if source.startswith(SSM) else "secretsmanager" for source in secrets.values()
    )
