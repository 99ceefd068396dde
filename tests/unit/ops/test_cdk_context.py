"""The settings in cdk.json are those that CDK deploys, read without CDK."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate import App, Encryption, Existing, Signing
from headgate.infra.stages import Stage
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.errors import ConfigurationError
from headgate.ops.cdk_context import deployment_from_cdk_json, stage_from_cdk_json

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


def test_a_stage_names_what_exists_and_the_app_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    common = {"existing": {"bucket": "shared"}, "budget_usd": 20}
    stages = {"dev": {}, "prod": {"existing": {"table": "jobs"}}}
    context = {"headgate:deployment": common, "headgate:stages": stages}
    written(tmp_path / "cdk.json", {"context": context})

    for stage, existing in (("dev", Existing(bucket="shared")), ("prod", Existing(table="jobs"))):
        found = stage_from_cdk_json(None, stage)
        assert found.deployment == Deployment(budget_usd=20)
        assert found.app_in(App("shop", stage=stage)).existing == existing


def test_an_app_without_a_cdk_json_has_what_its_code_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = App("shop", existing=Existing(table="jobs"))
    found = stage_from_cdk_json(None, None)
    assert found.deployment == Deployment()
    assert found.app_in(app) is app


def test_a_stage_s_resources_are_the_app_s_there_and_nowhere_else() -> None:
    app = App("shop", stage="prod")
    here = Stage(deployment=Deployment(), existing=Existing(table="jobs"))
    there = Stage(deployment=Deployment(standby=True), existing=Existing(table="jobs-west"))
    names = [each.app_in(app).topology.table_name for each in (here, there)]
    assert names == ["jobs", "jobs-west"]
    assert app.topology.table_name == "shop-prod-records"


def test_a_standby_of_an_app_whose_code_names_one_region_s_resources_is_refused() -> None:
    app = App("shop", existing=Existing(table="jobs"))
    standby = Stage(deployment=Deployment(standby=True))
    with pytest.raises(ConfigurationError, match=r"name them as \"existing\" in cdk\.json"):
        standby.app_in(app)
    assert replace(standby, existing=Existing(table="jobs")).app_in(app).existing == app.existing


def test_what_the_code_names_in_another_region_is_none_of_the_stage_s() -> None:
    app = App("shop", existing=Existing(table=f"arn:aws:dynamodb:{PLACE}:table/jobs"))
    assert Stage(deployment=Deployment(), region="eu-central-1").app_in(app) is app
    with pytest.raises(ConfigurationError, match="table/jobs is in another region than eu-west-1"):
        Stage(deployment=Deployment(), region="eu-west-1").app_in(app)


PLACE = "eu-central-1:111122223333"


@pytest.mark.parametrize(
    "options",
    [
        {"encryption": Encryption(keys=[f"arn:aws:kms:{PLACE}:key/1"])},
        {"signing": Signing(secret=f"arn:aws:secretsmanager:{PLACE}:secret:signing")},
    ],
)
def test_keys_by_the_arns_of_one_region_are_none_of_another_s(options: dict[str, Any]) -> None:
    app = App("shop", **options)
    here, there = (
        Stage(deployment=Deployment(), region=region) for region in ("eu-central-1", "eu-west-1")
    )
    assert here.app_in(app) is app
    with pytest.raises(ConfigurationError, match="in another region than eu-west-1"):
        there.app_in(app)


def test_keys_by_their_names_are_in_each_region() -> None:
    app = App("shop", encryption=Encryption(keys=["alias/jobs"]), signing=Signing())
    assert Stage(deployment=Deployment(), region="eu-west-1").app_in(app) is app
