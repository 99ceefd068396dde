"""A queue's attributes from a template and from SQS, made comparable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.infra.templates import name_of
from tests.support.deployable import Template

_NO_ATTRIBUTES = ("QueueName", "Tags")
_TEXTS = ("DeduplicationScope", "FifoThroughputLimit")


def declared(template: Template, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return a queue's properties in a template, with names for the ARNs of other queues."""
    return {
        attribute: _named(template, value)
        for attribute, value in properties.items()
        if attribute not in _NO_ATTRIBUTES
    }


def told(attributes: Mapping[str, str]) -> dict[str, Any]:
    """Return a queue's attributes as SQS reports them, in the same form."""
    return {
        attribute: text if attribute in _TEXTS else _without_arns(json.loads(text))
        for attribute, text in attributes.items()
        if not attribute.endswith("Arn")
    }


def _named(template: Template, value: Any) -> Any:
    match value:
        case {"deadLetterTargetArn": arn}:
            return {**value, "deadLetterTargetArn": name_of(template, arn)}
        case {"sourceQueueArns": arns}:
            return {**value, "sourceQueueArns": [name_of(template, arn) for arn in arns]}
    return value


def _without_arns(value: Any) -> Any:
    match value:
        case str():
            return value.rpartition(":")[-1]
        case list():
            return [_without_arns(each) for each in value]
        case dict():
            return {name: _without_arns(each) for name, each in value.items()}
    return value
