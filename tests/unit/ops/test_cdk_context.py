"""The settings in cdk.json are those that CDK deploys, read without CDK."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups import WorkerGroup
from headgate.jobs.errors import ConfigurationError
from headgate.ops.cdk_context import deployment_from_cdk_json

CONTEXT = {
    "headgate:deployment": {"budget_usd": 20, "workers": [{"name": "few", "max_tasks": 2}]},
    "headgate:stages": {
        "prod": {"region": "eu-central-1", "workers": [{"name": "many", "max_tasks": 40}]}
    },
}


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("stage", [None, "dev"])
def test_without_declared_stages_all_have_what_is_common(tmp_path: Path, stage: str | None) -> None:
    common = {"headgate:deployment": CONTEXT["headgate:deployment"]}
    path = written(tmp_path / "cdk.json", {"app": "x", "context": common})

    assert deployment_from_cdk_json(path, stage) == Deployment(
        budget_usd=20, workers=(WorkerGroup(name="few", max_tasks=2),)
    )


def test_where_stages_are_declared_one_of_them_has_to_be_named(tmp_path: Path) -> None:
    path = written(tmp_path / "cdk.json", {"context": CONTEXT})

    with pytest.raises(ConfigurationError, match="the stages prod: choose one with HEADGATE_STAGE"):
        deployment_from_cdk_json(path, None)
    with pytest.raises(ConfigurationError, match=r"'prdo' is not in .*did you mean 'prod'\?"):
        deployment_from_cdk_json(path, "prdo")


def test_the_stage_may_be_named_by_the_files_default(tmp_path: Path) -> None:
    context = {**CONTEXT, "headgate:stage": "prod"}
    path = written(tmp_path / "cdk.json", {"context": context})

    assert deployment_from_cdk_json(path, None) == deployment_from_cdk_json(path, "prod")


def test_what_is_said_of_a_stage_replaces_what_is_common(tmp_path: Path) -> None:
    path = written(tmp_path / "cdk.json", {"context": CONTEXT})

    assert deployment_from_cdk_json(path, "prod") == Deployment(
        budget_usd=20, workers=(WorkerGroup(name="many", max_tasks=40),)
    )


def test_without_a_path_the_working_directorys_file_is_read_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert deployment_from_cdk_json(None, None) == Deployment()

    written(tmp_path / "cdk.json", {"context": {"headgate:deployment": {"budget_usd": 7}}})
    assert deployment_from_cdk_json(None, None) == Deployment(budget_usd=7)


def test_a_file_that_is_named_and_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cdk\.json could not be read"):
        deployment_from_cdk_json(tmp_path / "cdk.json", None)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ([], "must hold a JSON object"),
        ({"context": []}, "must hold a JSON object"),
        ({"context": {"headgate:deployment": []}}, "headgate:deployment"),
        ({"context": {"headgate:stages": 3}}, "headgate:stages"),
        ({"context": {"headgate:stages": {"prod": "x"}}}, r"headgate:stages\.prod"),
        ({"context": {"headgate:deployment": {"worker": []}}}, "worker"),
        ({"context": {"headgate:stagse": {}}}, r"'headgate:stagse', .*did you mean"),
    ],
)
def test_what_is_malformed_is_refused_and_named(tmp_path: Path, content: Any, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        deployment_from_cdk_json(written(tmp_path / "cdk.json", content), "prod")
