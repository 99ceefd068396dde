"""An app with signing and encryption whose one job runs in a child process, and submits another."""

from __future__ import annotations

import os

from pydantic import BaseModel

from headgate import App, Encryption, JobContext, Priority, Signing


class Secret(BaseModel):
    """The payload."""

    text: str


app = App("sealed", records="full", signing=Signing(), encryption=Encryption())
_queue = app.queue("work", priorities=[Priority.NORMAL])


@_queue.job("isolated", isolation="process")
async def isolated(secret: Secret, ctx: JobContext) -> list[object]:
    await ctx.progress(50, secret.text, text=secret.text)
    await ctx.submit(neighbour, secret)
    return [os.getpid(), secret.text]


@_queue.job("neighbour")
async def neighbour(secret: Secret) -> str:
    return secret.text
