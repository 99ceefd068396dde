"""The app of the fixture ``jobs``, on data, a model and a clock of each test's own."""

from __future__ import annotations

import pytest

from examples.assistant.app import app
from examples.assistant.clock import Clock
from examples.assistant.embedder import Embedder, LocalEmbedder
from examples.assistant.store import Store, TenantData
from headgate import App
from headgate.testing import VirtualClock


@pytest.fixture
def headgate_app() -> App:
    return app


@pytest.fixture
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def data(store: Store) -> TenantData:
    """The data of the tenant that tests submit for."""
    return store.of("org-1")


@pytest.fixture
def clock() -> VirtualClock:
    """The time that handlers see; the harness has a clock of its own, which starts alike."""
    return VirtualClock()


@pytest.fixture
def headgate_resources(
    store: Store, embedder: LocalEmbedder, clock: VirtualClock
) -> dict[type, object]:
    return {Store: store, Embedder: embedder, Clock: clock}
