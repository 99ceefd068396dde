"""The web console of a deployment: a small service behind an internal load balancer."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import ClassVar

from pydantic import ConfigDict

from headgate.jobs.deployment.console.sign_in import SignIn
from headgate.jobs.deployment.surroundings import ExistingVpc
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.kinds import check_kinds
from headgate.jobs.values.light_dataclass import frozen_dataclass

CONSOLE_CPU, CONSOLE_MEMORY_MIB = 256, 512
"""CPU units and memory of the console's task: Fargate's smallest."""

_DOMAIN = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}")

_CERTIFICATE = re.compile(r"arn:(aws|aws-us-gov):acm:[\w-]+:\d{12}:certificate/[\w-]+")
"""Not one in China: where load balancers there have their public keys is not documented."""

_LEAST_SUBNETS = 2
"""Subnets that a load balancer needs, in zones of their own."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class WebConsole:
    """The web console as a service of one task, behind a load balancer that signs people in.

    It runs in the workers' cluster, image and subnets, which have to be those of an existing VPC.
    The image needs ``headgate[console,encryption]``.

    Raises:
        ConfigurationError: the domain or the certificate is malformed, or ``admits`` is empty, has
            no range of IPv4 addresses, or has all of them.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    domain: str
    """The name by which people reach it, such as ``console.example.com``, which is yours to point
    at the load balancer. It answers to no other, and alerts about dead letters link to it."""
    certificate: str
    """The ARN of the domain's certificate in ACM, in the same region."""
    admits: tuple[str, ...]
    """The ranges of IPv4 addresses that may open a connection, such as ``10.0.0.0/8``: a VPN's, an
    office's."""
    sign_in: SignIn
    """The identity provider. Whoever it signs in may look, and act unless ``read_only``."""
    read_only: bool = False
    """True lets nobody change anything, and the task have no permission to: it has
    `IJobSystem.grant_view`, in place of `IJobSystem.grant_operate`."""
    opens: bool = False
    """True lets people see payloads and results that the app's ``encryption=`` seals."""

    def __post_init__(self) -> None:
        check_kinds("the deployment's console", self)
        if not _DOMAIN.fullmatch(self.domain):
            raise ConfigurationError(
                "the deployment's console: domain must be a name such as console.example.com, got "
                f"{self.domain!r}"
            )
        if not _CERTIFICATE.fullmatch(self.certificate):
            raise ConfigurationError(
                "the deployment's console: certificate must be the ARN of one in ACM, in a region "
                f"outside China, got {self.certificate!r}"
            )
        if not self.admits:
            raise ConfigurationError(
                "the deployment's console: admits must name the ranges of addresses that may reach "
                "it, such as 10.0.0.0/8"
            )
        for each in self.admits:
            _check_range(each)
        if self.opens and self.read_only:
            raise ConfigurationError(
                "the deployment's console: opens has no effect with read_only, which shows no "
                "payload: leave one out"
            )

    @property
    def url(self) -> str:
        """Its address, without a slash at its end."""
        return f"https://{self.domain}"


def check_console_network(vpc: ExistingVpc) -> None:
    """Check that a VPC has what the console's load balancer needs.

    Raises:
        ConfigurationError: its subnets are public, or too few.
    """
    if vpc.public:
        raise private_subnets_needed()
    if len(vpc.subnets) < _LEAST_SUBNETS:
        raise ConfigurationError(
            f"the console's load balancer needs {_LEAST_SUBNETS} subnets, in zones of their own: "
            f"the deployment's vpc names {len(vpc.subnets)}"
        )


def private_subnets_needed() -> ConfigurationError:
    """Return the error of a deployment whose network the console can't work in."""
    return ConfigurationError(
        "the console's load balancer has no public address and has to reach the identity provider: "
        "give the deployment a vpc with private subnets behind NAT"
    )


def _check_range(text: str) -> None:
    try:
        found = IPv4Network(text)
    except ValueError as error:
        raise ConfigurationError(
            "the deployment's console: admits must have ranges of IPv4 addresses such as "
            f"10.0.0.0/8, got {text!r}: {error}"
        ) from error
    if found.prefixlen == 0:
        raise ConfigurationError(
            f"the deployment's console: admits has {text}, which is everybody: name the ranges of "
            "your own networks"
        )
