"""Answers of an AWS JSON service, read as botocore reads them, and bodies of requests.

https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from zlib import crc32

from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError, create_parser
from pydantic_core import from_json, to_json

from headgate.jobs.values.light_dataclass import light_dataclass

_REFUSED_FROM = HTTPStatus.MULTIPLE_CHOICES.value

_NO_SHAPE: Any = None  # an error response needs no shape of a model, but botocore's stubs want one


@light_dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole response to one request."""

    status: int
    headers: Mapping[str, str]
    """By lower-case names."""
    body: bytes

    @property
    def refused(self) -> bool:
        """True for a redirect, too: none is followed."""
        return self.status >= _REFUSED_FROM

    def read(self) -> dict[str, Any]:
        """Return the body's members; nulls are left out, as botocore does.

        Raises:
            ResponseParserError: the body is not a JSON object, or not the one that was sent.
        """
        checksum = self.headers.get("x-amz-crc32")  # DynamoDB's
        if checksum is not None and checksum != str(crc32(self.body)):
            raise ResponseParserError("the response's checksum doesn't match")
        parsed = _read(self.body)
        if not isinstance(parsed, dict):
            raise ResponseParserError("the response is not a JSON object")
        # Most bodies don't contain the word, so aren't walked through.
        if b"null" not in self.body:
            return parsed
        try:
            return {name: _without_nulls(item) for name, item in parsed.items() if item is not None}
        except RecursionError as error:
            raise ResponseParserError("the response is nested too deeply") from error

    def refusal(self, action: str) -> ClientError:
        """Read the error by botocore's own parser, which takes every form of error response.

        Its further members, such as the item that a condition forbids to replace, are added.
        """
        response = {"status_code": self.status, "headers": self.headers, "body": self.body}
        try:
            parsed = self._members() | create_parser("json").parse(response, _NO_SHAPE)
        except Exception:  # noqa: BLE001 - a proxy's page, or anything else with that status
            parsed = {
                "Error": {"Code": str(self.status), "Message": "the answer can't be read"},
                "ResponseMetadata": {"HTTPStatusCode": self.status},
            }
        return ClientError(parsed, action)

    def _members(self) -> dict[str, Any]:
        try:
            parsed = _read(self.body)
        except ResponseParserError:
            return {}
        return parsed if isinstance(parsed, dict) else {}


def written(params: Mapping[str, Any]) -> bytes:
    """Return the body of a request."""
    try:
        return to_json(params)
    except ValueError:  # half of a surrogate pair, left for AWS to refuse
        return json.dumps(params).encode()


def _read(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError:  # perhaps half of a surrogate pair, which json accepts, and so does botocore
        return _read_by_json(body)


def _read_by_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ResponseParserError("the response is not JSON") from error


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
