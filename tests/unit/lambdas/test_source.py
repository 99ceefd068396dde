"""The queue of the app that a function's messages come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from headgate import App, DoNotRetry, Existing, ExistingQueue, JobContext, Retry
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.errors import ConfigurationError
from headgate.lambdas.source import delivery_of
from tests.support.functions import Function, Note, record_of, submitted

THEIRS = "arn:aws:sqs:eu-central-1:444455556666:orders"
THEIR_LETTERS = "arn:aws:sqs:eu-central-1:444455556666:orders-dead"
OURS = "orders"


def shop(**queues: str) -> App:
    """Return an app with a group per existing queue, given by its name or ARN."""
    existing = {
        group: {"normal": ExistingQueue(queue=name, dead_letters=f"{name}-dead")}
        for group, name in queues.items()
    }
    app = App("shop", existing=Existing(queues=existing))
    for group in queues:
        app.queue(group, priorities=["normal"], retry=Retry(max_attempts=2))
    return app


@contextmanager
def function_of_theirs(app: App) -> Iterator[Function]:
    deployed = Function(app, THEIRS)
    try:
        yield deployed
    finally:
        deployed.close()


def group_of(app: App, arn: str) -> str:
    message = ReceivedMessage(
        message_id="m",
        receipt="r",
        body="{}",
        receive_count=1,
        sent_at=datetime.fromtimestamp(0, UTC),
    )
    return delivery_of(record_of(message, arn), app.topology, 0.0).queue.group


def test_a_function_runs_the_jobs_of_another_account_s_queue() -> None:
    app, ran = shop(mail=THEIRS), list[str]()

    @app.queues["mail"].job("send")
    async def send(note: Note) -> None:
        ran.append(note.text)

    with function_of_theirs(app) as deployed:
        submitted(deployed, "a", "b")
        assert deployed.invoke() == {"batchItemFailures": []}
        assert deployed.messages() == []
    assert sorted(ran) == ["a", "b"]


def test_its_retries_and_dead_letters_stay_in_that_account() -> None:
    app = shop(mail=THEIRS, own=OURS)

    @app.queues["mail"].job("send")
    async def send(_note: Note, ctx: JobContext) -> None:
        if ctx.attempt == 1:
            raise ValueError
        raise DoNotRetry("no")

    with function_of_theirs(app) as deployed:
        (job,) = submitted(deployed, "a")
        deployed.drain()
        (letter,) = deployed.messages(THEIR_LETTERS)
        assert letter.attributes["JobId"] == job
        assert deployed.messages(OURS) == []


@pytest.mark.parametrize("groups", [("theirs", "ours"), ("ours", "theirs")])
def test_queues_of_one_name_in_two_accounts_are_told_apart(groups: Sequence[str]) -> None:
    names = {"theirs": THEIRS, "ours": OURS}
    app = shop(**{group: names[group] for group in groups})

    assert group_of(app, THEIRS) == "theirs"
    assert group_of(app, f"arn:aws:sqs:eu-central-1:111122223333:{OURS}") == "ours"


def test_a_queue_of_the_same_name_is_not_taken_for_another_account_s() -> None:
    own = f"arn:aws:sqs:eu-central-1:111122223333:{OURS}"

    with pytest.raises(ConfigurationError, match=f"messages of the queue '{own}', which the app"):
        group_of(shop(mail=THEIRS), own)
