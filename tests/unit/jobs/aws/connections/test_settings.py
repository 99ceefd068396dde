"""The region of AWS's settings, as a client without one takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.jobs.aws.connections.connection import region_of_settings
from headgate.jobs.errors import HeadgateError


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No settings at all; the file of profiles."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "config"
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    return file


def test_without_settings_there_is_none() -> None:
    assert region_of_settings() is None


def test_the_variables_go_before_the_profile(
    monkeypatch: pytest.MonkeyPatch, nothing: Path
) -> None:
    nothing.write_text("[default]\nregion = eu-west-1\n[profile far]\nregion = ap-southeast-1\n")
    assert region_of_settings() == "eu-west-1"
    monkeypatch.setenv("AWS_PROFILE", "far")
    assert region_of_settings() == "ap-southeast-1"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert region_of_settings() == "us-east-1"
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert region_of_settings() == "eu-central-1"


def test_a_profile_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(HeadgateError, match="nobody"):
        region_of_settings()
