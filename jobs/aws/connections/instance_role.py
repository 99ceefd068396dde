"""Signs that the credentials come from the role of an EC2 instance.

botocore just finds no credentials, both if nothing is configured and if the instance's metadata
service fails to answer. Only the machine that the process runs on tells the two apart. An instance
without a role counts as the second: a role can be attached while it runs.
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
"""Files and their beginnings on an instance of Nitro or of Xen. Containers on it see them too.
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html"""


def expects_role(session: Session) -> bool:
    """Return True on an EC2 instance or with a metadata service configured, unless disabled.

    Reads two small files; sends nothing over the network.
    """
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "false").lower() == "true":
        return False
    if session.get_config_variable("ec2_metadata_service_endpoint"):
        return True
    return any(_begins(path, sign) for path, sign in SIGNS)


def no_role_yet() -> CredentialRetrievalError:
    """Return the error for an instance whose metadata service gave no credentials."""
    return CredentialRetrievalError(
        provider="iam-role", error_msg="the instance's metadata service gave none"
    )


def _begins(path: Path, sign: str) -> bool:
    with suppress(OSError, UnicodeDecodeError):  # missing, or not readable for everybody
        return path.read_text(encoding="utf-8").startswith(sign)
    return False
