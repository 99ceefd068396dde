from __future__ import annotations

import pytest

from tests.support.clients import KINDS, Kind


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """The kind of client; a test that takes it, or a fixture made of it, runs with either."""
    kind: Kind = request.param
    return kind
