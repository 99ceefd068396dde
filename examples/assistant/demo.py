"""The assistant on a local AWS, checked: ``python -m examples.assistant.demo``."""

from __future__ import annotations

import sys
from http import HTTPStatus

from examples.assistant import local
from examples.assistant.app import app
from examples.assistant.billing import Usage, check_quotas, record_usage, send_notice
from examples.assistant.documents import (
    Document,
    Indexing,
    embed_chunks,
    ingest_document,
    optimize_index,
)
from examples.assistant.memory import Fact, consolidate_memories, remember
from examples.assistant.receiver import Receiver, serving
from examples.assistant.store import Endpoint
from examples.assistant.webhooks import Webhook, dispatch_webhook
from headgate.events import JobRetryScheduled
from headgate.ops.demo.trial import Trial, run_trial

_PATIENCE_S = 120  # a machine may be busy
_TENANT = "org-1"
_SECRET = b"shared with the customer"

_FACTS = ("I like green tea", "I like green tea very much", "My train leaves at nine")


async def story(trial: Trial) -> None:
    await _like_memories_become_one(trial)
    await _a_document_is_embedded_in_batches(trial)
    await _a_webhook_is_signed_and_retried(trial)
    await _a_quota_is_watched(trial)


async def _like_memories_become_one(trial: Trial) -> None:
    for text in _FACTS:
        await trial.client.submit(remember, Fact(user="ada", text=text), tenant=_TENANT)
    await trial.completed(remember, len(_FACTS))
    await trial.client.schedules.run_now(consolidate_memories.name)
    await trial.completed(consolidate_memories, 2)  # the schedule's, and the tenant's
    kept = [each.text for each in local.store().of(_TENANT).memories.values()]
    trial.check("two memories are left, of tea and of the train", len(kept), 2)


async def _a_document_is_embedded_in_batches(trial: Trial) -> None:
    text = " ".join(f"Fact number {number} is worth remembering." for number in range(300))
    data = local.store().of(_TENANT)
    book = Document(name="book", text=text, chunk_words=30, overlap_words=6)
    job = await trial.client.submit(ingest_document, book, tenant=_TENANT)
    cut = await job.result(_PATIENCE_S)
    trial.check("the book is cut into chunks", cut, len(data.chunks))
    await trial.completed(embed_chunks)
    indexed = await trial.client.submit(optimize_index, Indexing(), tenant=_TENANT)
    await indexed.wait(_PATIENCE_S)
    left = [each.id for each in data.chunks.values() if each.is_open]
    trial.check("every chunk has a vector", left, [])
    batches = [size for size in local.embedder().requests if size > 1]
    trial.check("the model was asked for 32 at a time", max(batches), 32)


async def _a_webhook_is_signed_and_retried(trial: Trial) -> None:
    async with serving(Receiver(_SECRET)) as receiver:
        receiver.answers.append(HTTPStatus.SERVICE_UNAVAILABLE)
        endpoint = Endpoint(url=receiver.url, secret=_SECRET)
        local.store().of(_TENANT).endpoints["crm"] = endpoint
        event = Webhook(endpoint="crm", event="memory.created", data={"text": _FACTS[0]})
        job = await trial.client.submit(dispatch_webhook, event, tenant=_TENANT)
        trial.check("a webhook arrives", await job.result(_PATIENCE_S), HTTPStatus.OK)
        retried = [each for each in trial.events if isinstance(each, JobRetryScheduled)]
        trial.check("at its second attempt", [each.job_id for each in retried], [job.id])
        ids = [each["id"] for each in receiver.received]
        trial.check("with one id and right signatures", ids, [job.id, job.id])


async def _a_quota_is_watched(trial: Trial) -> None:
    used = await trial.client.submit(record_usage, Usage(tokens=85_000), tenant=_TENANT)
    trial.check("usage is recorded", await used.result(_PATIENCE_S), 85_000)
    await trial.client.schedules.run_now(check_quotas.name)
    await trial.completed(send_notice)
    notices = local.store().of(_TENANT).notices
    found = notices.get("quota-80")
    trial.check("the tenant is told at 80 %", found, "85,000 of 100,000 tokens are used")


def main() -> int:
    """Run the demo; returns the exit code."""
    return run_trial(app, story)


if __name__ == "__main__":
    sys.exit(main())
