"""The assistant's data, in this process's memory; it stands in for a database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from examples.assistant.language import Classifier
from examples.assistant.vectors import Index, Vector

DISABLED_AFTER = 10
"""Failed deliveries in a row after which an endpoint gets no more."""


@dataclass(slots=True, kw_only=True)
class Memory:
    """One thing that the assistant remembers of a user."""

    id: str
    user: str
    text: str
    vector: Vector
    importance: float
    """0 to 1."""
    at: datetime
    made_of: tuple[str, ...] = ()
    """The memories that it was consolidated from."""


@dataclass(slots=True, kw_only=True)
class Chunk:
    """A part of a document. It is open until it has a vector, or was refused for good."""

    id: str
    document: str
    text: str
    vector: Vector | None = None
    refusal: str = ""

    @property
    def is_open(self) -> bool:
        return self.vector is None and not self.refusal


@dataclass(slots=True, kw_only=True)
class Session:
    """A conversation."""

    id: str
    user: str
    last_at: datetime
    messages: list[str] = field(default_factory=list)
    summary: str = ""


@dataclass(slots=True, kw_only=True)
class Endpoint:
    """A customer's address for webhooks."""

    url: str
    secret: bytes = field(repr=False)
    failures: int = 0
    """Failed deliveries since the last one that succeeded."""
    disabled: str = ""
    """The reason why nothing is sent any more; empty while it is enabled."""

    def succeeded(self) -> None:
        self.failures = 0

    def failed(self) -> bool:
        """Count a failed delivery; return True if it disabled the endpoint."""
        self.failures += 1
        if self.failures >= DISABLED_AFTER and not self.disabled:
            self.disabled = f"{self.failures} deliveries failed in a row"
            return True
        return False


@dataclass(slots=True, kw_only=True)
class Plan:
    """The usage that a tenant has paid for in a month."""

    tokens: int


@dataclass(slots=True)
class TenantData:
    """Everything of one tenant. No job reaches another's."""

    plan: Plan = field(default_factory=lambda: Plan(tokens=100_000))
    memories: dict[str, Memory] = field(default_factory=dict)
    chunks: dict[str, Chunk] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    examples: list[tuple[str, str]] = field(default_factory=list)
    """Sentences of users, with the action that followed."""
    votes: defaultdict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    """Feedback by prompt."""
    ranking: list[str] = field(default_factory=list)
    """Prompts, the best first."""
    patterns: Classifier | None = None
    index: Index | None = None
    probes: int = 1
    usage: dict[str, int] = field(default_factory=dict)
    """Tokens by the id of the job that recorded them: a repeated one counts once."""
    is_suspended: bool = False
    notices: dict[str, str] = field(default_factory=dict)
    """Texts for the tenant's people, by key: each is said once."""
    exports: dict[str, str] = field(default_factory=dict)

    @property
    def used(self) -> int:
        """The tokens that have been used."""
        return sum(self.usage.values())

    def add_chunks(self, document: str, texts: Iterable[str]) -> list[str]:
        """Store a document's chunks in place of earlier ones; returns their ids."""
        for chunk in [each for each in self.chunks.values() if each.document == document]:
            del self.chunks[chunk.id]
        made = [
            Chunk(id=f"{document}#{number}", document=document, text=text)
            for number, text in enumerate(texts)
        ]
        self.chunks |= {chunk.id: chunk for chunk in made}
        return [chunk.id for chunk in made]

    def idle_sessions(self, now: datetime, idle: timedelta) -> list[Session]:
        """Return the sessions without a message for that long, the oldest first."""
        found = [each for each in self.sessions.values() if now - each.last_at >= idle]
        return sorted(found, key=lambda session: session.last_at)


class Store:
    """The tenants' data."""

    def __init__(self) -> None:
        self._tenants: defaultdict[str, TenantData] = defaultdict(TenantData)

    def of(self, tenant: str) -> TenantData:
        """Return the data of one tenant."""
        return self._tenants[tenant]

    def tenants(self) -> list[str]:
        """Return the names of all tenants."""
        return sorted(self._tenants)
