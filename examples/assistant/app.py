"""The assistant's app: ``headgate dev examples.assistant.app:app``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from examples.assistant import local
from examples.assistant.billing import billing
from examples.assistant.clock import Clock, SystemClock
from examples.assistant.documents import documents
from examples.assistant.embedder import Embedder
from examples.assistant.learning import learning
from examples.assistant.memory import memory
from examples.assistant.outbound import Http, connections
from examples.assistant.sessions import sessions
from examples.assistant.store import Store
from examples.assistant.webhooks import webhooks
from headgate import App

app = App("assistant")
app.include(memory, documents, learning, billing, webhooks, sessions)


@app.resource
def store() -> Iterator[Store]:
    yield local.store()


@app.resource
def embedder() -> Iterator[Embedder]:
    yield local.embedder()


@app.resource
def clock() -> Iterator[Clock]:
    yield SystemClock()


@app.resource
async def http() -> AsyncIterator[Http]:
    async with connections() as opened:
        yield opened
