"""Signs that the role of an EC2 instance gives the credentials.

botocore finds no credentials, and says no more, both where nothing is configured and where the
instance's metadata service fails to answer. Only where the process runs tells the two apart. An
instance without a role looks like the second: a role can be attached while it runs.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import CredentialRetrievalError

if TYPE_CHECKING:
    from botocore.session import Session

SIGNS: tuple[tuple[Path, str], ...] = (
    (Path("/sys/devices/virtual/dmi/id/sys_vendor"), "Amazon EC2"),
    (Path("/sys/hypervisor/uuid"), "ec2"),
)
"""Files, and how they begin on an instance: of Nitro, and of Xen. Containers on it see them too.
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html"""


def expects_role(session: Session) -> bool:
    """True on an EC2 instance, or with a metadata service in the settings, unless it is disabled.

    Reads two small files; asks nothing over the network.
    """
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "false").lower() == "true":
        return False
    if session.get_config_variable("ec2_metadata_service_endpoint"):
        return True
    return any(_begins(path, sign) for path, sign in SIGNS)


def no_role_yet() -> CredentialRetrievalError:
    """The error of an instance whose metadata service gave no credentials."""
    return CredentialRetrievalError(
        provider="iam-role", error_msg="the instance's metadata service gave none"
    )


def _begins(path: Path, sign: str) -> bool:
    with suppress(OSError, UnicodeDecodeError):  # not there, or not for everybody
        return path.read_text(encoding="utf-8").startswith(sign)
    return False
