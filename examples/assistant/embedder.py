"""The model that turns texts into vectors, and one that runs here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from examples.assistant.language import words
from examples.assistant.vectors import Vector, unit


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEmbedded:
    """The reason why the model returned no vector for one text."""

    reason: str
    transient: bool
    """True if another request may succeed."""


class Embedder(Protocol):
    """A model behind an API that takes several texts at once."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector | NotEmbedded]:
        """Return a vector for each text, or why there is none; in their order."""
        ...


@dataclass(slots=True, kw_only=True)
class LocalEmbedder:
    """An `Embedder` that hashes words: texts with common words have similar vectors.

    K. Weinberger et al., Feature Hashing for Large Scale Multitask Learning, ICML 2009.
    """

    dimensions: int = 64
    longest: int = 200
    """Most words of a text."""
    busy_for: set[str] = field(default_factory=set)
    """Texts for which the next request is refused as one too many."""
    requests: list[int] = field(default_factory=list)
    """The number of texts of each request."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector | NotEmbedded]:
        self.requests.append(len(texts))
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> Vector | NotEmbedded:
        if text in self.busy_for:
            self.busy_for.remove(text)
            return NotEmbedded(reason="too many requests", transient=True)
        found = words(text)
        if len(found) > self.longest:
            return NotEmbedded(reason=f"more than {self.longest} words", transient=False)
        vector = [0.0] * self.dimensions
        for word in found:
            number = int.from_bytes(blake2b(word.encode(), digest_size=8).digest())
            vector[number % self.dimensions] += 1.0 if number >> 63 else -1.0
        return unit(vector)
