"""The signing secret and the keys that `headgate dev` makes up on the local AWS."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from headgate.jobs.aws.kms import KmsKeys
from headgate.jobs.aws.provision_keys import provision_keys
from headgate.jobs.aws.secrets import SecretsManager
from headgate.jobs.messages.signatures import SigningKey
from tests.support.environment import with_test_credentials

CONTEXT = {"app": "shop", "type": "send", "use": "payload"}
FOREIGN = "arn:aws:kms:us-east-1:123456789012:alias/of-another-account"


async def test_they_are_made_once_and_kept_by_a_later_start(
    ministack: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    secret, alias = f"shop-{uuid4().hex}", f"alias/shop-{uuid4().hex}"
    secrets, keys = SecretsManager(endpoint_url=ministack), KmsKeys(endpoint_url=ministack)
    await provision_keys(secret=secret, keys=[alias, FOREIGN], endpoint_url=ministack)
    [value] = secrets.versions(secret)
    wrapped = keys.generate(alias, CONTEXT)
    await provision_keys(secret=secret, keys=[alias, FOREIGN], endpoint_url=ministack)
    SigningKey(value)  # which refuses a short one
    assert secrets.versions(secret) == [value]
    assert keys.unwrap(alias, wrapped.wrapped, CONTEXT) == wrapped.plain
    secrets.close()
    keys.close()
