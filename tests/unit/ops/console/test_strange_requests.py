"""Whatever is sent to the console gets an answer, and nothing of it becomes markup."""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import quote, urlencode

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from headgate.ops.console.pages import ROUTES
from tests.support.console import MARKUP
from tests.unit.ops.console.conftest import Shop

EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", "30"))

NAMES = st.sampled_from(
    [
        "q",
        "state",
        "type",
        "queue",
        "tenant",
        "since",
        "until",
        "after",
        "show",
        "id",
        "all",
        "confirmed",
        "reason",
        "payload",
        "priority",
        "lasts",
        "x",
    ]
)
VALUES = st.one_of(
    st.sampled_from([MARKUP, "dead", "payments", "1h", "9" * 400, "-1", "1e308d", "2026-13-01"]),
    st.sampled_from(["0196a2b4-0000-7000-8000-000000000001", "send-email", "{}", "[", "\x00"]),
    st.text(max_size=40),
)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=4)


def encoded(fields: Sequence[tuple[str, str]]) -> str:
    return urlencode([(name, value.encode(errors="replace")) for name, value in fields])


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(route=st.sampled_from(ROUTES), segment=VALUES, query=FIELDS, form=FIELDS)
def test_every_request_gets_an_answer_that_reflects_no_markup(
    route: Route, segment: str, query: list[tuple[str, str]], form: list[tuple[str, str]]
) -> None:
    browser = Shop().browser()
    name = quote(segment.encode(errors="replace"), safe="")
    path = route.path.format(**dict.fromkeys(route.param_convertors, name))
    if "POST" in (route.methods or ()):
        answer = browser.post(f"{path}?{encoded(query)}", dict(form))
    else:
        answer = browser.get(f"{path}?{encoded(query)}")
    assert answer.status < 500
    assert "<script>alert" not in answer.text
    assert not {"\x1b", "\u202e"} & set(answer.text)
