"""The number of examples that the hostile suites try: few by default, and as many as are asked for.

``HOSTILE_EXAMPLES=100000 pytest tests/hostile`` takes hours; the default, seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", "30"))

_SECONDS = max(300, EXAMPLES * 2)
"""Maximum duration of one test: two seconds an example; on a machine that does nothing else the
slowest takes a tenth of that."""

T = TypeVar("T", bound=Callable[..., Any])


def hostile(test: T) -> T:
    """Decorate a property test of what strangers may write."""
    bounded: T = pytest.mark.timeout(_SECONDS)(settings(max_examples=EXAMPLES)(test))
    return bounded


ABSURD: st.SearchStrategy[Any] = st.sampled_from(
    [0, -1, True, 1.5, 2**53 + 1, 10**37, -(10**37), 1e125, "", "x" * 10_000, "NaN", "1e999", None]
)

STORED: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**37), 10**37)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | ABSURD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc#", min_size=1), inner),
    max_leaves=6,
)
"""JSON values that DynamoDB holds."""


def fields(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return maps with some of these fields, of any value."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, STORED))
