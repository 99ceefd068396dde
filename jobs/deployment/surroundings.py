"""The surroundings of an app's code on AWS: variables, secrets, and a network that exists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import ClassVar, Literal

from pydantic import ConfigDict

from headgate.jobs.core.naming import check_name
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.kinds import check_kinds
from headgate.jobs.values.light_dataclass import frozen_dataclass

Architecture = Literal["arm64", "x86_64"]

LOG_RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""Days for which CloudWatch Logs can keep a log group's lines.
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html"""

WORKER = "worker"
"""The name of the worker's container in its task."""

_LEAST_MIB = 6
"""https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task_definition_parameters.html"""

_MOST_VARIABLES = 48 * 1024
"""Bytes that leave room for the rest of a task definition, which has 64 KiB at most.
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/service-quotas.html"""

SSM = "ssm:"
"""Prefix of a secret that is a parameter of Systems Manager's."""

_SECRET = re.compile(
    r"arn:[\w-]+:secretsmanager:[\w-]+:\d{12}:secret:[^:]+-[A-Za-z0-9]{6}(:[^:]+)?"
)
_PARAMETER = re.compile(r"ssm:[\w./-]+")
_ROLE = re.compile(r"arn:[\w-]+:iam::\d{12}:role/[\w+=,.@/-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = (
    *("HEADGATE_APP", "HEADGATE_STAGE", "HEADGATE_BUCKET", "HEADGATE_ACCOUNT"),
    *("HEADGATE_CONCURRENCY", "HEADGATE_EMF", "HEADGATE_EXISTING", "HEADGATE_STOP_TIMEOUT"),
    "HEADGATE_CONSOLE_LOAD_BALANCER",
)


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
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
        check_once("the deployment's vpc", (*self.subnets, *self.security_groups))
        named = [("vpc-", self.id)]
        named += [("subnet-", each) for each in self.subnets]
        named += [("sg-", each) for each in self.security_groups]
        for prefix, value in named:
            if not value.startswith(prefix):
                raise ConfigurationError(
                    f"the deployment's vpc: {value!r} is not an id: it begins with {prefix!r}"
                )


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A container beside the worker in each task of a group, such as a collector of traces.

    The worker reaches it at 127.0.0.1. It shares the task's CPU and memory.

    Raises:
        ConfigurationError: its name is the worker's, or a variable is not one.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    """Its name, which its lines in the log begin with."""
    image: str
    """Its image in a registry, which the workers' network has to reach."""
    command: tuple[str, ...] = ()
    """Its command; empty: the image's own."""
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Its environment variables."""
    memory_mib: int | None = None
    """The memory at which it is killed, 6 or more and less than the task's; None: the task's."""
    essential: bool = False
    """True if the task stops when it ends."""

    def __post_init__(self) -> None:
        owner = f"the sidecar {self.name!r}"
        check_kinds(owner, self)
        check_name("sidecar", self.name)
        check_surroundings(owner, self.environment, {})
        if self.memory_mib is not None and self.memory_mib < _LEAST_MIB:
            raise ConfigurationError(
                f"{owner}: memory_mib must be {_LEAST_MIB} or more, docker's least, got "
                f"{self.memory_mib}"
            )
        if self.name == WORKER:
            raise ConfigurationError(f"{owner}: the worker's own container has that name")


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Hardening:
    """Options of the network that is created for workers, beyond what they need."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    flow_logs: bool = False
    """Log the metadata of all traffic in CloudWatch Logs, for as long as the other logs."""
    endpoint_policies: bool = False
    """Admit to the endpoints principals and resources of this account alone, besides the layers of
    images, and the other accounts' queues, secrets and keys that the app names by their ARNs."""
    egress: bool = False
    """Let workers open connections to port 443 only; a database in the VPC then needs a rule of its
    own."""
    default_security_group: bool = False
    """Take the rules of the VPC's default security group away, by a function of CDK's."""

    def __post_init__(self) -> None:
        check_kinds("the deployment's hardening", self)


def check_role(owner: str, role: str | None) -> None:
    """Check the ARN of a role for tasks; None is valid, too.

    Raises:
        ConfigurationError: it is not the ARN of a role.
    """
    if role is not None and not _ROLE.fullmatch(role):
        raise ConfigurationError(f"{owner}: task_role must be the ARN of a role, got {role!r}")


def check_sidecars(owner: str, sidecars: Sequence[Sidecar], memory_mib: int) -> None:
    """Check the containers beside a worker in a task of so much memory.

    Raises:
        ConfigurationError: two have one name, or one may use as much memory as the whole task has.
    """
    if len({each.name for each in sidecars}) < len(sidecars):
        raise ConfigurationError(f"{owner}: two sidecars have one name")
    for each in sidecars:
        if each.memory_mib is not None and each.memory_mib >= memory_mib:
            raise ConfigurationError(
                f"{owner}: the sidecar {each.name!r} may use {each.memory_mib} MiB, and its task "
                f"has {memory_mib}, with the worker in it: lower one, or raise the group's"
            )


def check_once(owner: str, values: Sequence[str]) -> None:
    """Check that nothing is named twice, which CDK and AWS refuse in words of their own.

    Raises:
        ConfigurationError: a value is named twice.
    """
    for value in values:
        if values.count(value) > 1:
            raise ConfigurationError(f"{owner}: {value!r} is named twice: leave one out")


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
    size = sum(len(name) + len(value.encode()) for name, value in environment.items())
    if size > _MOST_VARIABLES:
        raise ConfigurationError(
            f"{owner}: its environment variables have {size:,} bytes, and ECS takes 64 KiB for all "
            f"of a task: put what is over {_MOST_VARIABLES:,} into the image, or into a secret"
        )
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
