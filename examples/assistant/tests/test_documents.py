"""Documents are cut, embedded in batches of 32 with partial failures, and indexed."""

from __future__ import annotations

import asyncio

import pytest

from examples.assistant.documents import (
    Chunks,
    Document,
    Embedded,
    Indexing,
    embed_chunks,
    ingest_document,
    optimize_index,
    reembed_documents,
)
from examples.assistant.embedder import LocalEmbedder
from examples.assistant.store import TenantData
from headgate.events import JobFailed, JobProgress
from headgate.testing import Harness

BOOK = Document(
    name="book",
    text=" ".join(f"Chapter {number} tells of thing {number}." for number in range(140)),
    chunk_words=10,
    overlap_words=0,
)


SHORT = BOOK.model_copy(update={"text": BOOK.text[: BOOK.text.index("Chapter 49")]})


def ingest(jobs: Harness, book: Document = BOOK) -> None:
    jobs.client.submit(ingest_document, book, tenant="org-1")
    jobs.drain()


def test_chunks_are_embedded_32_at_a_time(
    jobs: Harness, data: TenantData, embedder: LocalEmbedder
) -> None:
    ingest(jobs)
    assert embedder.requests == [32, 32, 32, 32, 12]
    assert not any(each.is_open for each in data.chunks.values())
    told = [event.percent for event in jobs.events if isinstance(event, JobProgress)]
    assert [round(percent) for percent in told] == [23, 46, 69, 91, 100]


def test_what_the_model_had_no_time_for_is_asked_again_alone(
    jobs: Harness, data: TenantData, embedder: LocalEmbedder
) -> None:
    embedder.busy_for |= {"Chapter 3 tells of thing 3.", "Chapter 77 tells of thing 77."}
    ingest(jobs)
    assert embedder.requests == [32, 32, 32, 32, 12, 2]
    [failed] = [event for event in jobs.events if isinstance(event, JobFailed)]
    assert failed.error_message == "2 of 140 chunks are left"
    assert not any(each.is_open for each in data.chunks.values())


def test_a_text_that_the_model_refuses_fails_alone_and_for_good(
    jobs: Harness, data: TenantData, embedder: LocalEmbedder
) -> None:
    embedder.longest = 5
    data.add_chunks("mixed", ["short enough", "this one has too many words"])
    work = Chunks(ids=("mixed#0", "mixed#1"))
    handle = jobs.client.submit(embed_chunks, work, tenant="org-1")
    jobs.drain()
    assert handle.result() == Embedded(embedded=1, refused=1)
    assert data.chunks["mixed#1"].refusal == "more than 5 words"


def test_a_document_that_changed_leaves_no_chunk_of_before(jobs: Harness, data: TenantData) -> None:
    ingest(jobs)
    ingest(jobs, Document(name="book", text="It is short now."))
    assert [each.text for each in data.chunks.values()] == ["It is short now."]


def test_a_new_model_embeds_everything_again_behind_all_else(
    jobs: Harness, data: TenantData, embedder: LocalEmbedder
) -> None:
    ingest(jobs, SHORT)
    embedder.dimensions = 32
    jobs.client.submit(reembed_documents, tenant="org-1")
    jobs.drain()
    assert {len(each.vector or ()) for each in data.chunks.values()} == {32}


def test_a_cost_of_words_keeps_to_what_the_provider_counts() -> None:
    limit = embed_chunks.limits.rate_limit
    assert limit is not None
    assert limit.cost_of(Chunks(ids=("a",), words=120)) == 120


def test_an_index_reaches_the_recall_that_is_asked_for(jobs: Harness, data: TenantData) -> None:
    ingest(jobs, SHORT)
    handle = jobs.client.submit(optimize_index, Indexing(least_recall=0.99), tenant="org-1")
    jobs.drain()
    indexed = handle.result()
    assert (indexed.vectors, indexed.lists) == (49, 7)
    assert indexed.recall >= 0.99
    assert data.probes == indexed.probes <= indexed.lists


def test_an_index_of_no_vectors_is_made_too(jobs: Harness, data: TenantData) -> None:
    handle = jobs.client.submit(optimize_index, Indexing(), tenant="org-1")
    jobs.drain()
    assert handle.result().recall == 1
    assert data.index is not None


def test_like_texts_have_like_vectors(embedder: LocalEmbedder) -> None:
    from examples.assistant.vectors import cosine

    texts = ["green tea is good", "green tea is very good", "trains leave at nine"]
    one, other, third = asyncio.run(embedder.embed(texts))
    assert isinstance(one, tuple)
    assert isinstance(other, tuple)
    assert isinstance(third, tuple)
    assert cosine(one, other) > 0.8 > 0.3 > cosine(one, third)
    assert cosine(one, one) == pytest.approx(1)
