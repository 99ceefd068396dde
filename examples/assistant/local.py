"""The stand-ins of this process: its data, and the model."""

from __future__ import annotations

from functools import cache

from examples.assistant.embedder import LocalEmbedder
from examples.assistant.store import Store


@cache
def store() -> Store:
    """Return the data."""
    return Store()


@cache
def embedder() -> LocalEmbedder:
    """Return the model."""
    return LocalEmbedder()
