"""A unit runs a worker group in order, and stops it in order."""

from __future__ import annotations

import shlex

import pytest

from headgate.infra.fargate.worker_command import command
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError
from headgate.ops.export.files import systemd_files
from tests.unit.ops.export.shop import GROUPS, ORIGIN, target

URGENT, REST = GROUPS


def read(text: str) -> dict[str, list[str]]:
    """Return the values of a unit's settings, in order."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def units() -> dict[str, dict[str, list[str]]]:
    files = systemd_files(target(), ORIGIN, code="/srv/shop", venv="/srv/venv")
    assert all(file.text.startswith("# shop-prod, written by") for file in files)
    return {file.name: read(file.text) for file in files}


def test_each_group_has_a_unit_with_its_command_and_a_port_of_its_own() -> None:
    made = units()
    assert list(made) == ["shop-prod-urgent.service", "shop-prod-rest.service"]
    for (name, port), group in zip(
        {"shop-prod-urgent.service": 8080, "shop-prod-rest.service": 8081}.items(),
        GROUPS,
        strict=True,
    ):
        [start] = made[name]["ExecStart"]
        assert shlex.split(start) == [
            "/srv/venv/bin/headgate",
            *command(group, emf=False, port=port),
        ]
        assert made[name]["WorkingDirectory"] == ["/srv/shop"]


def test_a_unit_is_stopped_by_sigterm_and_given_time_to_drain() -> None:
    made = units()["shop-prod-rest.service"]
    assert (made["KillSignal"], made["KillMode"]) == (["SIGTERM"], ["mixed"])
    assert made["TimeoutStopSec"] == ["91"]


def test_values_keep_their_percent_signs_and_secrets_have_a_file() -> None:
    made = units()["shop-prod-rest.service"]
    assert '"PRICE=$5 at 100%%"' in made["Environment"]
    assert made["EnvironmentFile"] == ["-/etc/headgate/shop-prod-rest.env"]
    assert not [each for each in made["Environment"] if "DATABASE_PASSWORD" in each]


def test_a_value_stays_within_its_line_whatever_is_in_it() -> None:
    value = 'one\rExecStartPre=/bin/evil\ntwo"\\\tthree'
    files = systemd_files(
        target(deployment=Deployment(workers=GROUPS, environment={"NOTE": value})),
        ORIGIN,
        code="/srv/shop",
        venv="/srv/venv",
    )
    for file in files:
        made = read(file.text)
        assert "ExecStartPre" not in made
        line = '"NOTE=one\\x0dExecStartPre=/bin/evil\\x0atwo\\"\\\\\\x09three"'
        assert line in made["Environment"]


@pytest.mark.parametrize(
    "folder", ["srv/shop", "", "/srv/my shop", "/srv\nExecStartPre=/bin/evil", "/srv/%n", "/a\\"]
)
def test_a_folder_that_a_unit_cannot_name_is_refused(folder: str) -> None:
    with pytest.raises(ConfigurationError, match="--code names a folder"):
        systemd_files(target(), ORIGIN, code=folder, venv="/srv/venv")
    with pytest.raises(ConfigurationError, match="--venv names a folder"):
        systemd_files(target(), ORIGIN, code="/srv/shop", venv=folder)
