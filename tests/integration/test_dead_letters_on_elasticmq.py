"""Dead letters on a real server: looked through, exported, purged and imported by both clients."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from uuid import uuid4

import boto3
import pytest

from headgate import App, DeadLetterFilter
from headgate.jobs.aws.provision import create_table
from tests.support.clients import KINDS, Kind, connected
from tests.support.environment import REGION, with_test_credentials

LETTERS = 130


@pytest.fixture
def app(elasticmq: str, moto: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> App:
    """An app of one queue, with letters of two errors in its dead-letter queue."""
    with_test_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", elasticmq)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto)  # for the audit
    app = App(f"t{uuid4().hex[:12]}", records="off")
    asyncio.run(create_table(app.topology.table_name, endpoint_url=moto))
    app.define("send-email", dict[str, str])
    sqs = boto3.session.Session(region_name=REGION).client("sqs")
    urls = {}
    for spec in app.topology.queues:
        for name in (spec.name, spec.dlq_name, app.topology.quarantine_name):
            urls[name] = sqs.create_queue(QueueName=name)["QueueUrl"]
    spec = app.topology.queue("jobs", "normal")
    for start in range(0, LETTERS, 10):
        sqs.send_message_batch(
            QueueUrl=urls[spec.dlq_name],
            Entries=[
                {
                    "Id": str(number),
                    "MessageBody": json.dumps({"number": number}),
                    "MessageAttributes": {
                        name: {"DataType": "String", "StringValue": value}
                        for name, value in (
                            ("JobId", f"job-{number}"),
                            ("JobType", "send-email"),
                            ("Reason", "attempts-exhausted"),
                            ("ErrorType", "TimeoutError" if number % 2 else "CardError"),
                        )
                    },
                }
                for number in range(start, start + 10)
            ],
        )
    sqs.close()
    return app


@pytest.mark.parametrize("kind", KINDS)
async def test_letters_are_looked_through_exported_purged_and_imported(
    kind: Kind, app: App, tmp_path: Path
) -> None:
    timeouts = DeadLetterFilter(errors=("TimeoutError",))
    async with connected(kind, app) as client:
        letters = client.dead_letters
        counts = await letters.count(("error",))
        assert {each.group["error"]: each.count for each in counts.groups} == {
            "TimeoutError": LETTERS // 2,
            "CardError": LETTERS // 2,
        }
        assert counts.look.complete
        shown = await letters.show("job-7", payload=True)
        assert shown is not None
        assert shown.payload == '{"number": 7}'
        exported = await letters.export(timeouts, to=tmp_path / "letters.jsonl")
        assert exported.exported == LETTERS // 2
        purged = await letters.purge(timeouts, copy=False)
        assert (purged.purged, list(purged.failures)) == (LETTERS // 2, [])
        assert await letters.import_(tmp_path / "letters.jsonl") == LETTERS // 2
        assert (await letters.count()).total == LETTERS
