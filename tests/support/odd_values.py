"""Unexpected kinds of values, for property tests of edges."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.text(st.characters(categories=["Cs"]), min_size=1, max_size=2),
    st.binary(max_size=3),
    st.lists(st.text(max_size=3) | st.integers(), max_size=2),
)
"""Python's basic types, lone surrogates included; tests add values specific to their edge."""
