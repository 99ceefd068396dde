"""An app with a type at its second schema version, run in child processes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from headgate import Accepts, App, Priority

app = App("versioned")
queue = app.queue("work", priorities=[Priority.NORMAL])


class Note(BaseModel):
    """The second version: ``text`` was called ``body``."""

    text: str


def renamed(values: Any) -> Any:
    return {"text": values["body"]}


@queue.job("measure", schema=2, upgrade={1: renamed}, accepts=Accepts.json(), isolation="process")
def measure(note: Note) -> int:
    return len(note.text)
