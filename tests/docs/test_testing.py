"""docs/testing.md: its tests run, as in a reader's project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()


def test_the_page_s_own_tests_pass(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared, *tested = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.syspath_prepend(pytester.path)
    test = "\n".join(tested).replace("from shop.app import", "from page_app import")
    pytester.makepyfile(page_app=declared, test_page=test)
    pytester.makeini("[pytest]\nheadgate_app = page_app:app\n")
    plugin = (
        *("-p", "no:headgate", "-p", "headgate.pytest_plugin", "-p", "no:cacheprovider"),
        *("-o", "asyncio_default_fixture_loop_scope=function"),
    )
    ended = pytester.runpytest_inprocess(*plugin)
    ended.assert_outcomes(passed=len(re.findall(r"^(?:async )?def test_", PAGE, re.MULTILINE)))
