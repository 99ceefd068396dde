"""Rules by which properties of CloudFormation's become arguments and blocks of Terraform's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.export.terraform.references import References

Rendered = Mapping[str, Any]
"""Arguments and blocks by their names."""

Argument = Callable[[Any, References], Rendered]
"""Renders the value of one property."""


def plain(name: str) -> Argument:
    """Return an argument with the property's value."""
    return lambda value, references: {name: references.value(value)}


def document(name: str) -> Argument:
    """Return an argument with the property's value as JSON."""
    return lambda value, references: {name: references.json(value)}


def tags(value: Any, references: References) -> Rendered:
    """Render tags, which CloudFormation lists as keys with values."""
    return {"tags": {each["Key"]: references.value(each["Value"]) for each in value}}


def without(*values: Any) -> Argument:
    """Return no argument, for a property that says with these values what Terraform does anyway."""

    def render(value: Any, _references: References) -> Rendered:
        if value not in values:
            raise ConfigurationError(f"{value!r} can't be exported to Terraform yet")
        return {}

    return render


@light_dataclass(frozen=True, slots=True, kw_only=True)
class NestedBlock:
    """A nested block with an argument for each property."""

    name: str
    arguments: Mapping[str, Argument]

    def __call__(self, value: Any, references: References) -> Rendered:
        """Render the property: one block, or one for each item of a list."""
        if isinstance(value, list):
            return {self.name: [arguments(self.arguments, each, references) for each in value]}
        return {self.name: arguments(self.arguments, value, references)}


def arguments(
    table: Mapping[str, Argument], properties: Mapping[str, Any], references: References
) -> Rendered:
    """Render properties by a table; none is left out.

    Raises:
        ConfigurationError: a property isn't in the table.
    """
    found: dict[str, Any] = {}
    for name, value in properties.items():
        if name not in table:
            raise ConfigurationError(f"the property {name} can't be exported to Terraform yet")
        found.update(table[name](value, references))
    return found
