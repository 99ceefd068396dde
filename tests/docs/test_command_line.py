"""docs/command-line.md names every command and every key of its JSON."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

from headgate import AuditEntry
from headgate.errors import Fault
from headgate.jobs.client.jobs.pages import ListedJob
from headgate.jobs.deployment.retry_timeline import Planned
from headgate.jobs.records.history import AttemptRecord, JobRecord
from headgate.ops.cli.main import cli

SEVERITIES = ("error", "warning")
PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()


def row(first: str) -> str:
    """Return the second cell of the row that begins with this one, in the table of documents."""
    table = PAGE.partition("| command | document |")[2]
    [found] = re.findall(rf"^\| {re.escape(first)} \| (.*) \|$", table, re.MULTILINE)
    return str(found)


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ("`jobs show`", JobRecord),
        ("— its `attempts`", AttemptRecord),
        ("— its `jobs`", ListedJob),
        ("— its `entries`", AuditEntry),
        ("`check`", Fault),
        ("`plan`", Planned),
    ],
)
def test_the_keys_of_a_document_are_those_on_the_page(first: str, kind: Any) -> None:
    named = [each for each in re.findall(r"`(\w+)`", row(first)) if each not in SEVERITIES]
    assert named == [field.name for field in fields(kind)]


def test_every_command_is_on_the_page() -> None:
    commands: Any = typer.main.get_command(cli)
    table = PAGE.partition("| command | what it does |")[2].partition("\n\n")[0]
    named = " ".join(re.findall(r"`([^`]*)`", table)).split()
    for name, command in commands.commands.items():
        assert {name, *getattr(command, "commands", ())} <= set(named)
