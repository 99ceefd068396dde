"""The permission and the resource that a request to AWS needs, read off the wire.

https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.cloudformation import ACCOUNT, REGION, arn_of
from tests.support.proxy.wire import body


class Call(NamedTuple):
    """One request's need of a permission."""

    action: str
    """Such as ``sqs:SendMessage``."""
    resource: str
    """Its ARN."""
    rows: tuple[str, ...] = ()
    """The partition keys of the table's items that it names (``dynamodb:LeadingKeys``)."""
    if_none_match: str = ""
    """The header of that name (``s3:if-none-match``); empty if there is none."""


PASS_ROLE = "iam:PassRole"  # noqa: S105 - an action

_SERVICE = re.compile(
    rb"\r\nauthorization:[^\r]*Credential=[^/]+/\d+/[^/]+/([^/]+)/", re.IGNORECASE
)
_IF_NONE_MATCH = re.compile(rb"\r\nif-none-match: *([^\r]+)", re.IGNORECASE)
_TARGET = re.compile(rb"\r\nx-amz-target: *\w+\.(\w+)", re.IGNORECASE)


def calls_of(request: bytes) -> list[Call]:
    """Return the permissions that a signed request needs.

    Raises:
        ValueError: the request is to a service unknown here, or not signed.
    """
    head = request.partition(b"\r\n\r\n")[0] + b"\r\n"
    found = _SERVICE.search(head)
    service = found[1].decode() if found else "none"
    if service not in _READERS:
        raise ValueError(f"a request to {service} is not known here: {head.splitlines()[0]!r}")
    return list(_READERS[service](request))


def _sqs(request: bytes) -> Iterator[Call]:
    asked = _json(request)
    # A batch needs the permission of its entries.
    action = _target(request).removesuffix("Batch")
    queue = asked.get("QueueName") or str(asked["QueueUrl"]).rpartition("/")[2]
    yield Call(f"sqs:{action}", arn_of("AWS::SQS::Queue", queue))


def _dynamodb(request: bytes) -> Iterator[Call]:
    asked = _json(request)
    for table in asked.get("RequestItems") or [asked["TableName"]]:
        arn = arn_of("AWS::DynamoDB::GlobalTable", table)
        index = asked.get("IndexName")
        resource = f"{arn}/index/{index}" if index else arn
        yield Call(f"dynamodb:{_target(request)}", resource, tuple(sorted(set(_rows(asked)))))


def _rows(asked: Mapping[str, Any]) -> Iterator[str]:
    """Yield the partition keys that a request of DynamoDB names; of an index, the index's."""
    for one in (asked.get("Key"), asked.get("Item")):
        if one:
            yield one["pk"]["S"]
    for writes in asked.get("RequestItems", {}).values():
        for write in writes:
            [written] = write.values()
            yield written.get("Item", written.get("Key"))["pk"]["S"]
    if "KeyConditionExpression" in asked:
        name = asked["KeyConditionExpression"].split(" ")[2]
        yield asked["ExpressionAttributeValues"][name]["S"]


def _s3(request: bytes) -> Iterator[Call]:
    method, path, query = _line(request)
    if "list-type" in query:
        yield Call("s3:ListBucket", f"arn:aws:s3:::{path.strip('/')}")
        return
    actions = {"HEAD": "s3:GetObject"}
    action = actions.get(method, f"s3:{method.capitalize()}Object")
    found = _IF_NONE_MATCH.search(request.partition(b"\r\n\r\n")[0])
    condition = found[1].decode() if found else ""
    yield Call(action, f"arn:aws:s3:::{unquote(path).lstrip('/')}", if_none_match=condition)


def _scheduler(request: bytes) -> Iterator[Call]:
    method, path, query = _line(request)
    schedules = f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule"
    if path == "/schedules":
        yield Call("scheduler:ListSchedules", f"{schedules}/*/*")
        return
    asked = _json(request) if method in ("POST", "PUT") else {}
    group = asked.get("GroupName") or query["groupName"][0]
    verb = {"DELETE": "Delete", "GET": "Get", "POST": "Create", "PUT": "Update"}[method]
    name = unquote(path).removeprefix("/schedules/")
    yield Call(f"scheduler:{verb}Schedule", f"{schedules}/{group}/{name}")
    if asked:
        yield Call(PASS_ROLE, str(asked["Target"]["RoleArn"]))


def _sns(request: bytes) -> Iterator[Call]:
    asked = parse_qs(body(request).decode())
    yield Call(f"sns:{asked['Action'][0]}", asked["TopicArn"][0])


def _nothing(_request: bytes) -> Iterator[Call]:
    """Yield nothing: no permission is needed to ask for one's own identity.

    https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
    """
    return iter(())


_READERS: Mapping[str, Callable[[bytes], Iterator[Call]]] = {
    "dynamodb": _dynamodb,
    "s3": _s3,
    "scheduler": _scheduler,
    "sns": _sns,
    "sqs": _sqs,
    "sts": _nothing,
}


def _line(request: bytes) -> tuple[str, str, Mapping[str, list[str]]]:
    method, address, _ = request.split(b"\r\n", 1)[0].decode().split(" ")
    split = urlsplit(address)
    return method, split.path, parse_qs(split.query)


def _target(request: bytes) -> str:
    found = _TARGET.search(request)
    if found is None:
        raise ValueError("the request has no X-Amz-Target")
    return found[1].decode()


def _json(request: bytes) -> dict[str, Any]:
    asked: dict[str, Any] = json.loads(body(request))
    return asked
