"""Bundled jobs in a `Harness`: they are seen, run and retried one by one."""

from __future__ import annotations

from typing import Any

from headgate import App, Backoff, DoNotRetry, JobContext, Retry
from headgate.jobs.testing import Harness


def test_bundled_jobs_are_seen_and_run_one_by_one() -> None:
    app = App("shop")
    attempts: list[tuple[str, int]] = []

    @app.job("embed", bundle=True, retry=Retry(max_attempts=3, backoff=Backoff.fixed(60)))
    def embed(note: dict[str, Any], ctx: JobContext) -> str:
        attempts.append((note["text"], ctx.attempt))
        if note["text"] == "bad":
            raise DoNotRetry("no")
        if note["text"] == "odd" and ctx.attempt < 3:
            raise ConnectionError
        return str(note["text"])

    jobs = Harness(app)
    handles = jobs.client.submit_many(embed, [{"text": text} for text in ("a", "odd", "bad")])
    assert len(jobs.sqs.messages("shop-jobs-normal")) == 1
    assert [each.id for each in jobs.submitted(embed)] == [handle.id for handle in handles]
    assert jobs.assert_submitted(embed, {"text": "odd"}).id == handles[1].id
    jobs.drain()
    assert attempts == [("a", 1), ("odd", 1), ("bad", 1), ("odd", 2), ("odd", 3)]
    assert [each.payload["text"] for each in jobs.completed(embed)] == ["a", "odd"]
    assert [each.payload["text"] for each in jobs.dead_lettered(embed)] == ["bad"]
    assert handles[1].result(timeout=0) == "odd"
    assert jobs.sqs.messages("shop-jobs-normal") == []
