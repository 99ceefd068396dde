"""The needs of `headgate demo` that an installation does not meet."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest

from headgate.errors import ConfigurationError
from headgate.ops import demo


def _without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    def found(module: str) -> ModuleType:
        for name in names:
            if f"{module}.".startswith(f"{name}."):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return import_module(module)

    monkeypatch.setattr(demo, "import_module", found)


def test_all_that_the_demo_lacks_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "examples", "ministack", "aws_lambda_powertools")
    with pytest.raises(ConfigurationError) as refusal:
        demo.run_demo(demo.DemoOptions())
    text = str(refusal.value)
    assert "a checkout of Headgate's repository" in text
    assert "pip install ministack; and" in text
    assert "pip install 'headgate[lambda]'" in text


def test_a_library_that_the_example_lacks_is_not_taken_for_the_example(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_module: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'aiobotocore'", name="aiobotocore")

    monkeypatch.setattr(demo, "import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="aiobotocore"):
        demo.run_demo(demo.DemoOptions())
