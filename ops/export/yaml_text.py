"""YAML as people read it: in the order given, without references, with programs as blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.jobs.errors import LibraryMissing

try:
    import yaml
except ModuleNotFoundError as error:
    raise LibraryMissing("writing YAML", "PyYAML", "headgate[export]") from error

_WIDTH = 10_000  # a long line is one line


def yaml_text(documents: Sequence[Any]) -> str:
    """Return documents of mappings, lists and plain values as one text."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        explicit_start=len(documents) > 1,
        allow_unicode=True,
        width=_WIDTH,
    )


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's own signature
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
