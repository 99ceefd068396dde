"""AWS's environment variables for tests: none of this machine's, and never a real account."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REGION = "us-east-1"


def without_aws(monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> None:
    """Remove all of AWS's settings, including profiles and the instance's metadata.

    ``nowhere`` is a directory without AWS's files.
    """
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(nowhere / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(nowhere / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def with_test_credentials(monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> None:
    """Set credentials that no account accepts, and a region; nothing else of AWS's."""
    without_aws(monkeypatch, nowhere)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_REGION", REGION)
