"""The identity provider that signs people in to the web console."""

from __future__ import annotations

import re
from typing import ClassVar

from pydantic import ConfigDict

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.kinds import check_kinds
from headgate.jobs.values.light_dataclass import frozen_dataclass

_ADDRESSES = ("issuer", "authorization_endpoint", "token_endpoint", "user_info_endpoint")
_SECRET = re.compile(r"arn:[\w-]+:secretsmanager:[\w-]+:\d{12}:secret:[^:]+")


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """The identity provider that signs people in, by OpenID Connect.

    Its discovery document, ``ISSUER/.well-known/openid-configuration``, has the four addresses.
    The load balancer calls the latter two, so its subnets have to reach them, through NAT. The
    provider has to know ``https://DOMAIN/oauth2/idpresponse`` as an address to lead back to.
    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html

    Raises:
        ConfigurationError: an address is not one of https, or the secret is not an ARN.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    user_info_endpoint: str
    client_id: str
    client_secret: str
    """The ARN of the secret in Secrets Manager whose whole text is the client's secret."""
    scope: str = "openid email"
    """The claims to ask for, separated by spaces; people are named by their e-mail address."""

    def __post_init__(self) -> None:
        check_kinds("the console's sign_in", self)
        for name in _ADDRESSES:
            address: str = getattr(self, name)
            if not address.startswith("https://"):
                raise ConfigurationError(
                    f"the console's sign_in: {name} must be an address that begins with https://, "
                    f"got {address!r}"
                )
        if not _SECRET.fullmatch(self.client_secret):
            raise ConfigurationError(  # without the value: it may be the secret itself
                "the console's sign_in: client_secret must be the ARN of a secret in Secrets "
                "Manager, such as "
                "arn:aws:secretsmanager:eu-central-1:111122223333:secret:console-AbCdEf"
            )
