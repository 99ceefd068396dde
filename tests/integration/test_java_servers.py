"""The servers written in Java work, and are reachable from this machine alone."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import boto3
import pytest

from tests.support.environment import REGION


@pytest.mark.parametrize("server", ["elasticmq", "dynamodb"])
def test_a_java_server_listens_on_the_loopback_alone(
    server: str, request: pytest.FixtureRequest
) -> None:
    port = urlsplit(request.getfixturevalue(server)).port
    assert port is not None

    with socket.socket() as other:
        # If it listened on every address, this one would be taken.
        other.bind(("127.0.0.2", port))


def test_dynamodb_local_keeps_tables(dynamodb: str) -> None:
    resource = boto3.session.Session().resource(
        "dynamodb",
        endpoint_url=dynamodb,
        region_name=REGION,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",  # noqa: S106 - no account takes it
    )
    table = resource.create_table(
        TableName="java-servers",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    try:
        table.put_item(Item={"pk": "a"})

        assert table.get_item(Key={"pk": "a"})["Item"] == {"pk": "a"}
    finally:
        table.delete()
        resource.meta.client.close()
