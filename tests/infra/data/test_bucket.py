"""The bucket is private, expires its objects, and is accessible only to roles that need it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headgate import App
from headgate.jobs.aws.descriptions import lifecycle_rules
from headgate.jobs.core.naming import DEAD_LETTERS, DEAD_LETTERS_KEPT, PAYLOADS, RESULTS
from tests.infra.conftest import Params
from tests.infra.templates import Properties, resources, synthesized


def _app(stage: str | None) -> App:
    app = App("shop", stage=stage)
    app.define("send-email", Params)
    return app


@pytest.fixture(scope="module")
def template() -> Mapping[str, Any]:
    return synthesized(_app("test"))


@pytest.fixture(scope="module")
def bucket(template: Mapping[str, Any]) -> Properties:
    [found] = resources(template, "AWS::S3::Bucket").values()
    return found


def test_the_bucket_has_the_name_by_which_workers_look_for_it(bucket: Properties) -> None:
    account, region = {"Ref": "AWS::AccountId"}, {"Ref": "AWS::Region"}
    assert bucket["BucketName"] == {"Fn::Join": ["", ["shop-test-payloads-", account, "-", region]]}
    named = _app("test").topology.bucket.name_in("111122223333", "eu-central-1")
    assert named == "shop-test-payloads-111122223333-eu-central-1"


def test_what_is_in_it_expires_as_in_a_local_stack(bucket: Properties) -> None:
    topology = _app("test").topology
    deployed = bucket["LifecycleConfiguration"]["Rules"]
    for local, rule in zip(lifecycle_rules(topology), deployed, strict=True):
        assert rule["Id"] == local["ID"]
        assert rule["Status"] == local["Status"]
        assert rule["Prefix"] == local["Filter"]["Prefix"]
        assert rule["ExpirationInDays"] == local["Expiration"]["Days"]
    assert {rule["Prefix"]: rule["ExpirationInDays"] for rule in deployed} == {
        PAYLOADS: 36,
        DEAD_LETTERS: DEAD_LETTERS_KEPT.days,
        RESULTS: 36,
    }


def test_nobody_reads_it_in_public_or_without_tls(
    template: Mapping[str, Any], bucket: Properties
) -> None:
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    [policy] = resources(template, "AWS::S3::BucketPolicy").values()
    [statement] = policy["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
