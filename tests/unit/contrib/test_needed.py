"""Integrations whose framework is not installed."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from headgate.errors import ConfigurationError


@pytest.mark.parametrize(
    ("integration", "missing", "library"),
    [
        ("fastapi", "fastapi", "fastapi"),
        ("flask", "flask", "flask"),
        ("django", "django.conf", "django"),
        ("django.tasks", "django_tasks.backends.base", "django-tasks"),
    ],
)
def test_the_error_names_what_to_install(
    integration: str, missing: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"headgate.contrib.{integration}", raising=False)
    monkeypatch.setitem(sys.modules, "django.tasks.backends.base", None)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigurationError) as raised:
        import_module(f"headgate.contrib.{integration}")
    wanted = f"headgate.contrib.{integration} needs {library}: pip install {library}"
    assert str(raised.value) == wanted
