"""The queue of documents: cut into chunks, embedded in batches, and indexed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field

from examples.assistant.embedder import Embedder, NotEmbedded
from examples.assistant.language import chunks, words
from examples.assistant.store import Chunk, Store
from examples.assistant.tenancy import data_of, for_each_tenant
from examples.assistant.vectors import Index, Vector, build_index, recall
from headgate import Backoff, JobContext, Priority, Queue, RateLimit, Retry, Unique, cron

BATCH = 32
"""Texts of one request to the model."""

_JOB = 8 * BATCH
"""Chunks of one job: enough to report progress on, and to lose no more when a worker dies."""

_NEIGHBOURS = 5


class Document(BaseModel):
    """A document that a user has added."""

    model_config = ConfigDict(frozen=True)

    name: str
    text: str
    chunk_words: int = Field(default=120, ge=10)
    overlap_words: int = Field(default=20, ge=0)


class Chunks(BaseModel):
    """The chunks to embed."""

    model_config = ConfigDict(frozen=True)

    ids: tuple[str, ...]
    words: int = 0
    """Their words, by which the model's provider counts."""


class Embedded(BaseModel):
    """The outcome of a job's batches."""

    embedded: int
    refused: int


class Indexing(BaseModel):
    """The bounds of a good index."""

    model_config = ConfigDict(frozen=True)

    least_recall: float = Field(default=0.9, gt=0, le=1)
    """The share of true neighbours that a search has to find."""


class Indexed(BaseModel):
    """An index, as measured against comparing with every vector."""

    vectors: int
    lists: int
    probes: int
    recall: float


class PartlyEmbedded(Exception):
    """The model had no time for some chunks; another attempt asks for these alone."""


documents = Queue(
    "documents",
    priorities=[Priority.NORMAL, Priority.LOW],
    retry=Retry(
        max_attempts=6,
        backoff=Backoff.exponential(base=2, cap=120),
        retry_on=(PartlyEmbedded,),
    ),
)


@documents.job("ingest-document", timeout=timedelta(minutes=2))
async def ingest_document(document: Document, store: Store, ctx: JobContext) -> int:
    """Cut a document into chunks and submit their embedding; return how many."""
    texts = list(chunks(document.text, document.chunk_words, document.overlap_words))
    data = data_of(store, ctx)
    ids = data.add_chunks(document.name, texts)
    await _submit_chunks(ctx, [data.chunks[name] for name in ids])
    return len(ids)


@documents.job(
    "embed-chunks",
    timeout=timedelta(minutes=5),
    rate_limit=RateLimit(60_000, per=60, cost=lambda work: work.words, scope="fleet"),
)
async def embed_chunks(work: Chunks, store: Store, embedder: Embedder, ctx: JobContext) -> Embedded:
    """Embed chunks in batches of 32. What has a vector is not asked for again."""
    known = data_of(store, ctx).chunks
    left = [known[name] for name in work.ids if name in known and known[name].is_open]
    busy = 0
    for start in range(0, len(left), BATCH):
        batch = left[start : start + BATCH]
        busy += await _embed(batch, embedder)
        done = start + len(batch)
        await ctx.progress(100 * done / len(left), f"{done} of {len(left)}", busy=busy)
    if busy:
        raise PartlyEmbedded(f"{busy} of {len(left)} chunks are left")
    whole = [known[name] for name in work.ids if name in known]
    refused = sum(bool(each.refusal) for each in whole)
    return Embedded(embedded=len(whole) - refused, refused=refused)


@documents.job(
    "reembed-documents",
    priority=Priority.LOW,
    timeout=timedelta(minutes=5),
    unique=Unique(within=timedelta(hours=1), key="all"),
)
async def reembed_documents(ctx: JobContext, store: Store) -> int:
    """Embed all chunks anew, after a change of the model; return how many."""
    known = [*data_of(store, ctx).chunks.values()]
    for chunk in known:
        chunk.vector, chunk.refusal = None, ""
    await _submit_chunks(ctx, known, priority=Priority.LOW)
    return len(known)


@documents.job(
    "optimize-index",
    priority=Priority.LOW,
    timeout=timedelta(minutes=15),
    schedule=cron("0 4 ? * SUN *"),
    schedule_payload=Indexing(least_recall=0.95),
)
async def optimize_index(wanted: Indexing, store: Store, ctx: JobContext) -> Indexed:
    """Build the index anew, and measure how many lists a search has to look through."""
    if ctx.tenant is None:
        await for_each_tenant(store, ctx, optimize_index, wanted)
        return Indexed(vectors=0, lists=0, probes=0, recall=1)
    data = data_of(store, ctx)
    vectors = {each.id: each.vector for each in data.chunks.values() if each.vector}
    # In a thread: meanwhile the event loop has other jobs to run.
    index, probes, found = await asyncio.to_thread(_index_of, vectors, wanted.least_recall)
    data.index, data.probes = index, probes
    return Indexed(vectors=len(vectors), lists=len(index.lists), probes=probes, recall=found)


def _index_of(vectors: Mapping[str, Vector], least_recall: float) -> tuple[Index, int, float]:
    """Return an index, how many lists to look through, and the recall that they reach."""
    index = build_index(vectors, max(1, math.isqrt(len(vectors))))
    probes, found = 0, 0.0
    while found < least_recall:
        probes += 1
        found = recall(index, vectors, vectors, count=_NEIGHBOURS, probes=probes)
    return index, probes, found


async def _submit_chunks(
    ctx: JobContext, wanted: Sequence[Chunk], priority: Priority | None = None
) -> None:
    for start in range(0, len(wanted), _JOB):
        part = wanted[start : start + _JOB]
        ids = tuple(each.id for each in part)
        work = Chunks(ids=ids, words=sum(len(words(each.text)) for each in part))
        await ctx.submit(embed_chunks, work, priority=priority)


async def _embed(batch: Sequence[Chunk], embedder: Embedder) -> int:
    """Embed one batch; return for how many chunks the model was too busy."""
    busy = 0
    results = await embedder.embed([each.text for each in batch])
    for chunk, result in zip(batch, results, strict=True):
        if not isinstance(result, NotEmbedded):
            chunk.vector = result
        elif result.transient:
            busy += 1
        else:
            chunk.refusal = result.reason
    return busy
