"""A consumer's own bundle runs jobs, alone, configured as the template says."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import aws_cdk as cdk
import boto3
import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, Backoff, Priority, Retry
from headgate.infra.stack import HeadgateStack
from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.core.ports.transport import QueueDepth, ReceivedMessage
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from tests.infra.conftest import NO_BUNDLING
from tests.infra.templates import Properties, resources, template_of
from tests.support.backends import async_over
from tests.support.bundled_function import OWN_PIN, build, write_project
from tests.support.environment import REGION, with_test_credentials
from tests.support.functions import record_of
from tests.support.journal import GENEROUS_S, until, whole_lines

# Dependencies are installed, and a bundle of 50 MB is given to a server that starts it.

ACCOUNT = "000000000000"
ATTEMPTS = 3
_EMPTY = QueueDepth(visible=0, in_flight=0, delayed=0)

INVOKE = """
import json, sys
sys.path.insert(0, {bundle!r})
from letters.function import handler

class Context:
    aws_request_id = "request-1"

    def get_remaining_time_in_millis(self):
        return 30_000

print(json.dumps(handler(json.loads(sys.stdin.read()), Context())))
import aiohttp, boto3, botocore, idna, pydantic
assert all(each.__file__.startswith({bundle!r}) for each in (aiohttp, boto3, botocore, pydantic))
assert idna.__version__ == {own_pin!r}
"""


class Letter(BaseModel):
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A bundle, and the consumer it belongs to."""

    group: ConsumerGroup
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    """The app as a submitter knows it, with its queue, on a server."""

    app: App
    sqs: AsyncSqsTransport
    endpoint_url: str
    journal: Path

    @property
    def queue(self) -> QueueSpec:
        return self.app.topology.queue("mail", Priority.NORMAL)

    async def submit(self, *texts: str) -> None:
        async with AsyncClient(self.app, backend=async_over(self.sqs)) as client:
            await client.submit_many(self.app.types["send"], [Letter(text=text) for text in texts])

    async def drained(self) -> None:
        async with asyncio.timeout(GENEROUS_S):
            while await self.sqs.depth(self.queue.name) != _EMPTY:  # noqa: ASYNC110 - the server sets no event of ours
                await asyncio.sleep(0.05)

    async def dead_letters(self) -> list[ReceivedMessage]:
        return await self.sqs.receive(self.queue.dlq_name, limit=10, wait_s=5)

    def attempts(self) -> list[tuple[str, int]]:
        """Return text and number of each attempt so far."""
        found = (line.rpartition(" ") for line in whole_lines(self.journal))
        return [(text, int(attempt)) for text, _, attempt in found]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Built:
    group = write_project(tmp_path_factory.mktemp("project"))
    target = tmp_path_factory.mktemp("bundle")
    build(group, target)
    return Built(group=group, path=target)


@pytest.fixture
async def letters(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Letters]:
    with_test_credentials(monkeypatch, tmp_path)
    app = App("letters", stage=f"t{uuid4().hex[:12]}")
    retry = Retry(max_attempts=ATTEMPTS, backoff=Backoff.fixed(1))
    mail = app.queue("mail", priorities=[Priority.NORMAL], retry=retry)
    mail.define("send", Letter)
    await provision(app.topology, endpoint_url=server)
    async with AsyncSqsTransport(endpoint_url=server) as sqs:
        yield Letters(app=app, sqs=sqs, endpoint_url=server, journal=tmp_path / "journal")


async def test_it_runs_a_job_in_a_clean_interpreter_with_nothing_but_its_bundle(
    bundle: Built, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    await letters.submit("hello")
    [message] = await letters.sqs.receive(letters.queue.name, limit=1, wait_s=5)
    event = {"Records": [record_of(message, letters.queue.name, place=f"{REGION}:{ACCOUNT}")]}
    monkeypatch.setenv("AWS_ENDPOINT_URL", letters.endpoint_url)
    monkeypatch.setenv("HEADGATE_STAGE", str(letters.app.stage))
    monkeypatch.setenv("JOURNAL", str(letters.journal))

    done = subprocess.run(  # noqa: ASYNC221 - nothing else runs on this loop
        # -I and -S: neither this environment's packages nor this directory's
        [
            *(sys.executable, "-I", "-S", "-B", "-c"),
            INVOKE.format(bundle=str(bundle.path), own_pin=OWN_PIN),
        ],
        input=json.dumps(event),
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"batchItemFailures": []}
    assert letters.attempts() == [("hello", 1)]


# --- on a server that implements Lambda ----------------------------------------------------------


def properties(app: App, group: ConsumerGroup) -> tuple[Properties, list[Properties]]:
    """Return the template's properties of the function and of its event source mappings."""
    stack = HeadgateStack(
        cdk.App(context=NO_BUNDLING),
        "Stack",
        app=app,
        deployment=Deployment(workers=(), consumers=(group,)),
    )
    template = template_of(stack)
    functions = resources(template, "AWS::Lambda::Function").values()
    [function] = [each for each in functions if each["Handler"] == group.handler]
    return function, list(resources(template, "AWS::Lambda::EventSourceMapping").values())


def filled(function: Properties, app: App) -> dict[str, str]:
    """Return the function's variables, with the values that CloudFormation inserts."""
    declared = function["Environment"]["Variables"]
    bucket = app.topology.bucket.name_in(ACCOUNT, REGION)
    return {**declared, "HEADGATE_ACCOUNT": ACCOUNT, "HEADGATE_BUCKET": bucket}


def zipped(bundle: Path) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(bundle.rglob("*")):
            archive.write(path, path.relative_to(bundle))
    return file.getvalue()


def deploy(letters: Letters, bundle: Built, variables: Mapping[str, str], stack: ExitStack) -> None:
    """Create the template's resources, and delete them at the end, since the server is shared."""
    function, mappings = properties(letters.app, bundle.group)
    aws = boto3.client("lambda", endpoint_url=letters.endpoint_url, region_name=REGION)
    stack.callback(aws.close)
    name = function["FunctionName"]
    aws.create_function(
        FunctionName=name,
        Role=f"arn:aws:iam::{ACCOUNT}:role/function",
        Code={"ZipFile": zipped(bundle.path)},
        **{each: function[each] for each in ("Runtime", "Handler", "Timeout", "MemorySize")},
        Environment={"Variables": {**filled(function, letters.app), **variables}},
    )
    stack.callback(aws.delete_function, FunctionName=name)
    for mapping in mappings:
        settings = ("BatchSize", "FunctionResponseTypes", "ScalingConfig")
        made = aws.create_event_source_mapping(
            FunctionName=name,
            EventSourceArn=f"arn:aws:sqs:{REGION}:{ACCOUNT}:{letters.queue.name}",
            **{each: mapping[each] for each in settings},
        )
        stack.callback(aws.delete_event_source_mapping, UUID=made["UUID"])


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


async def test_as_the_template_says_jobs_run_come_again_and_end_as_dead_letters(
    bundle: Built, letters: Letters, cleanup: ExitStack
) -> None:
    variables = {"JOURNAL": str(letters.journal), "AWS_ENDPOINT_URL": letters.endpoint_url}
    await asyncio.to_thread(deploy, letters, bundle, variables, cleanup)

    await letters.submit("flaky", "hopeless", *map(str, range(10)))

    await until(lambda: len(letters.attempts()) == 10 + 2 + ATTEMPTS)
    await letters.drained()
    attempts = letters.attempts()
    assert sorted(number for text, number in attempts if text == "flaky") == [1, 2]
    assert [number for text, number in attempts if text == "hopeless"] == [1, 2, ATTEMPTS]
    [letter] = await letters.dead_letters()
    assert letter.attributes["Reason"] == "attempts-exhausted"
    assert letter.attributes["Attempts"] == str(ATTEMPTS)
