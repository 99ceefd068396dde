"""Batch handlers in a harness: jobs that wait together run together, as at a worker."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, SecretStr, field_serializer

from headgate import App, Backoff, Batch, BatchContext, JobState, Priority, Retry
from headgate.testing import Done, Failed, Harness


class Text(BaseModel):
    text: str = ""


class Login(BaseModel):
    password: SecretStr

    @field_serializer("password", when_used="json")
    def _as_submitted(self, password: SecretStr) -> str:
        return password.get_secret_value()


def embedding(**options: Any) -> tuple[Harness, list[list[str]]]:
    """Return a harness of an app with the type ``embed``, and the items of each call."""
    app, calls = App("shop"), list[list[str]]()

    @app.job("embed", retry=Retry(max_attempts=2, backoff=Backoff.fixed(1)), **options)
    async def embed(items: list[Text], ctx: BatchContext) -> list[str]:
        calls.append([item.text for item in items])
        for item in items:
            if item.text == "bad":
                ctx.fail(item, ConnectionError("no"))
        return [item.text.upper() for item in items]

    return Harness(app), calls


def test_jobs_that_wait_together_run_in_calls_of_the_batchs_size() -> None:
    jobs, calls = embedding(batch=Batch(2))
    embed = jobs.app.types["embed"]
    handles = jobs.client.submit_many(embed, [Text(text=text) for text in "abcde"])
    jobs.drain()
    assert calls == [["a", "b"], ["c", "d"], ["e"]]
    assert [handle.result() for handle in handles] == [*"ABCDE"]


def test_what_failed_is_retried_alone() -> None:
    jobs, calls = embedding(batch=Batch(10))
    embed = jobs.app.types["embed"]
    handles = jobs.client.submit_many(embed, [Text(text="a"), Text(text="bad"), Text(text="b")])
    jobs.drain()
    assert calls == [["a", "bad", "b"], ["bad"]]
    assert [handle.state() for handle in handles] == [
        JobState.COMPLETED,
        JobState.DEAD,
        JobState.COMPLETED,
    ]
    assert len(jobs.dead_letters(embed)) == 1


def test_one_attempt_runs_as_a_batch_of_one() -> None:
    jobs, calls = embedding(batch=Batch(10))
    embed = jobs.app.types["embed"]
    assert jobs.run(embed, Text(text="a")) == Done(result="A")
    assert isinstance(jobs.run(embed, Text(text="bad"), attempt=2), Failed)
    assert calls == [["a"], ["bad"]]


def test_other_jobs_of_the_queue_keep_their_turn() -> None:
    jobs, calls = embedding(batch=Batch(10, group_by=lambda text: text.text[0]))
    others: list[str] = []

    @jobs.app.job("other")
    def other(text: Text) -> None:
        others.append(text.text)

    @jobs.app.job("urgent", priority=Priority.HIGH)
    def urgent(text: Text) -> None:
        others.append(text.text)

    embed = jobs.app.types["embed"]
    for text in ("a1", "b1", "a2"):
        jobs.client.submit(embed, Text(text=text))
        jobs.client.submit(other, Text(text=text))
    jobs.client.submit(urgent, Text(text="first"))
    jobs.drain()
    assert calls == [["a1", "a2"], ["b1"]]
    assert others == ["first", "a1", "b1", "a2"]


def test_an_item_is_told_by_identity_and_a_plain_value_by_its_value() -> None:
    app, failed = App("shop"), list[Any]()

    @app.job("models", batch=Batch(2), retry=Retry(max_attempts=1))
    async def models(items: list[Text], ctx: BatchContext) -> None:
        ctx.fail(items[1], ValueError("the second of two equal ones"))

    @app.job("texts", batch=Batch(3), retry=Retry(max_attempts=1))
    async def texts(items: list[str], ctx: BatchContext) -> None:
        ctx.fail("a", ValueError("both"))
        with pytest.raises(ValueError, match="no item of the batch"):
            ctx.fail("c", ValueError("neither"))
        with pytest.raises(TypeError, match="takes an exception"):
            ctx.fail(items[0], "a text")  # type: ignore[arg-type]
        failed.append(ctx.job(items[2]).id)

    jobs = Harness(app)
    jobs.client.submit_many(models, [Text(), Text()])
    handles = jobs.client.submit_many(texts, ["a", "a", "b"])
    jobs.drain()
    assert len(jobs.dead_letters(models)) == 1
    assert len(jobs.dead_letters(texts)) == 2
    assert failed == [handles[2].id]


def test_an_error_shows_no_secret_of_a_neighbour() -> None:
    app = App("shop")

    async def check(items: list[Login], _ctx: BatchContext) -> None:
        raise ValueError(" and ".join(item.password.get_secret_value() for item in items))

    declared = app.job("check", batch=Batch(2), retry=Retry(max_attempts=1))(check)
    jobs = Harness(app)
    jobs.client.submit_many(
        declared, [Login(password=SecretStr("hunter2")), Login(password=SecretStr("swordfish"))]
    )
    jobs.drain()
    messages = [letter.attributes["ErrorMessage"] for letter in jobs.dead_letters(declared)]
    assert messages == ["[redacted] and [redacted]"] * 2
