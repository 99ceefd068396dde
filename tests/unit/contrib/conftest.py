"""Django, set up once for the tests that use it, by the settings of examples/django."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.django.settings")


@pytest.fixture(scope="session")
def django() -> Iterator[None]:
    """Django, with an empty database in memory."""
    import django
    from django.db import connections

    django.setup()
    yield
    connections.close_all()
