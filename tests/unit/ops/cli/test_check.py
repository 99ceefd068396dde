"""``headgate check`` and ``headgate plan``."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

APP = "cli_shop:app"
FAULTY = """

from headgate import cron

class Nothing(BaseModel):
    pass

@app.job("new-year", schedule=cron("0 0 31 6 ? *"))
def new_year(nothing: Nothing) -> None: ...
"""


@pytest.fixture(autouse=True)
def _for_trial(here: Path) -> None:
    """Deploy the app to be thrown away, which says nothing about who is told of its alarms."""
    context = {"headgate:deployment": {"keep_data": False}}
    (here / "cdk.json").write_text(json.dumps({"context": context}))


def test_an_app_without_faults_passes_the_check(headgate: CommandLine) -> None:
    ended = headgate("check", app=APP)
    assert (ended.code, ended.out.splitlines()[0]) == (0, "no faults")
    ended = headgate("check", "--json", app=APP)
    assert ended.code == 0
    assert {each["severity"] for each in json.loads(ended.out)} <= {"advice"}


def test_the_check_advises_on_queues_that_no_type_uses_and_what_they_cost(
    here: Path, headgate: CommandLine
) -> None:
    assert headgate("check", app=APP).out == "no faults\n"
    declared = (here / "cli_shop.py").read_text()
    wide = declared.replace('App("shop"', 'App("shop", priorities="all"')
    (here / "cli_wide_shop.py").write_text(wide)
    told = headgate("check", app="cli_wide_shop:app").out
    assert "advice: app shop: no type names the priorities of" in told
    assert "USD a month" in told


def test_a_fault_is_exit_code_1_and_one_line_that_names_its_rule(
    here: Path, headgate: CommandLine
) -> None:
    with (here / "cli_shop.py").open("a") as source:
        source.write(textwrap.dedent(FAULTY))
    ended = headgate("check", app=APP)
    assert ended.code == 1
    assert ended.out.startswith("error: type new-year: cron(0 0 31 6 ? *) has no date")
    assert ended.out.endswith("[schedule-never-fires]\n")
    ended = headgate("check", "--json", app=APP)
    [fault] = json.loads(ended.out)
    assert ended.code == 1
    assert fault.keys() == {"rule", "where", "what", "why", "instead", "severity"}
    assert (fault["rule"], fault["severity"]) == ("schedule-never-fires", "error")


def test_the_check_looks_at_the_deployment_that_cdk_json_describes(
    here: Path, headgate: CommandLine
) -> None:
    unfit = {"workers": [{"priorities": ["low"]}], "keep_data": False}
    (here / "cdk.json").write_text(json.dumps({"context": {"headgate:deployment": unfit}}))
    ended = headgate("check", app=APP)
    assert ended.code == 1
    assert "none of the queues jobs has the priority low" in ended.out
    assert ended.out.endswith("[deployment-unfit]\n")


def test_the_check_looks_at_the_standby_too_and_says_where_it_found_a_fault(
    here: Path, headgate: CommandLine
) -> None:
    unfit = {"region": "eu-west-1", "workers": [{"priorities": ["low"]}]}
    stage = {"region": "eu-central-1", "keep_data": False, "standby_in": unfit}
    context = {"headgate:stages": {"test": stage}}
    (here / "cdk.json").write_text(json.dumps({"context": context}))
    ended = headgate("check", "--json", app=APP)
    faults = json.loads(ended.out)
    assert ended.code == 1
    assert {each["rule"] for each in faults} == {"deployment-unfit"}
    assert all(each["where"].startswith("the standby in eu-west-1, ") for each in faults)


def test_existing_names_of_the_stage_are_refused_for_its_standby(
    here: Path, headgate: CommandLine
) -> None:
    stage = {"region": "eu-central-1", "existing": {"table": "jobs"}}
    stage |= {"standby_in": {"region": "eu-west-1"}}
    context = {"headgate:stages": {"test": stage}}
    (here / "cdk.json").write_text(json.dumps({"context": context}))
    ended = headgate("check", app=APP)
    assert ended.code == 2
    assert 'name those in eu-west-1 as "existing" here' in " ".join(ended.err.split())


def test_what_is_checked_is_the_stage_that_cdk_json_names_unless_another_is_asked_for(
    here: Path, headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (here / "cli_shop.py").read_text().replace(', stage="test"', "")
    (here / "cli_staged_shop.py").write_text(source + "print(app.topology.table_name)\n")
    stages = {"dev": {"keep_data": False}, "prod": {"keep_data": False}}
    context = {"headgate:stage": "dev", "headgate:stages": stages}
    (here / "cdk.json").write_text(json.dumps({"context": context}))
    assert headgate("check", app="cli_staged_shop:app").out.startswith("shop-dev-records\n")
    assert "HEADGATE_STAGE" not in os.environ
    del sys.modules["cli_staged_shop"]
    monkeypatch.setenv("HEADGATE_STAGE", "prod")
    assert headgate("check", app="cli_staged_shop:app").out.startswith("shop-prod-records\n")


def test_a_stage_of_cdk_json_that_is_no_name_is_refused(here: Path, headgate: CommandLine) -> None:
    (here / "cdk.json").write_text(json.dumps({"context": {"headgate:stage": 7}}))
    ended = headgate("check", app=APP)
    assert ended.code == 2
    assert "cdk.json: 'headgate:stage' must be a stage's name, got 7" in ended.err


def test_a_plan_shows_when_each_attempt_comes(headgate: CommandLine) -> None:
    ended = headgate("plan", "send-email", app=APP)
    assert ended.code == 0
    assert "0 s to 3 s" in ended.out
    planned = json.loads(headgate("plan", "send-email", "--json", app=APP).out)
    assert [each["latest_s"] for each in planned] == [0, 1, 3]


def test_a_type_that_the_app_lacks_has_no_plan(headgate: CommandLine) -> None:
    ended = headgate("plan", "send-emial", app=APP)
    assert (ended.code, ended.out) == (2, "")
    assert "did you mean 'send-email'?" in ended.err
