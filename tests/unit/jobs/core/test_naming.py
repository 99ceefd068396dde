from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.core.naming import check_name, physical_name
from headgate.jobs.errors import ConfigurationError


@given(
    parts=st.lists(st.from_regex(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", fullmatch=True), min_size=1),
    fifo=st.booleans(),
)
def test_a_physical_name_is_one_that_sqs_takes_or_is_refused(parts: list[str], fifo: bool) -> None:
    app, *rest = parts
    try:
        name = physical_name(app, None, *rest, fifo=fifo)
    except ConfigurationError:
        assert len("-".join(parts)) + len(".fifo") * fifo > 80
    else:
        assert len(name) <= 80
        assert name.removesuffix(".fifo").replace("-", "").isalnum()


def test_a_logical_name_ends_where_it_seems_to() -> None:
    with pytest.raises(ConfigurationError):
        check_name("the queue", "jobs\n")
