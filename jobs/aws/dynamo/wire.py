"""DynamoDB's requests and answers as plain data, built and read here but sent elsewhere."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from headgate.jobs.aws.descriptions import LINES
from headgate.jobs.aws.dynamo.attributes import (
    Attribute,
    Attributes,
    check_keys,
    decode,
    encode,
    encode_all,
    encode_next,
    lives,
)
from headgate.jobs.core.ports.table import Item, Key, Page
from headgate.jobs.errors import ItemUnreadable
from headgate.jobs.values.own_log import OwnLog

CONNECT_TIMEOUT_S = 1.0
READ_TIMEOUT_S = 2.0
ATTEMPTS = 2
"""Tries of a call, with a pause of up to 1 s between them: 5 s at most, since jobs wait for it."""

_log = OwnLog("headgate.table")

_WRITE = "write"
"""Attribute of the items written by `AsyncTable.replace`: a random name of that one call."""

_COMPARED = {
    (True, True): "BETWEEN :after AND :before",
    (True, False): "> :after",
    (False, True): "< :before",
}
"""Conditions on a place, by the bounds that are given: after, before."""


def put_request(table: str, items: Sequence[Item]) -> dict[str, Any]:
    """Return the request of BatchWriteItem that puts items."""
    return {"RequestItems": {table: [{"PutRequest": {"Item": each}} for each in encode_all(items)]}}


def put_one_request(table: str, item: Item) -> dict[str, Any]:
    """Return the request of PutItem that puts an item, whatever stands at its place."""
    return {"TableName": table, "Item": encode(item)}


def unprocessed(table: str, items: Sequence[Item], answer: Any) -> list[Item]:
    """Return the items that DynamoDB left unprocessed."""
    left = answer["UnprocessedItems"].get(table, ())
    keys = [each["PutRequest"]["Item"] for each in left]
    places = {(key["pk"]["S"], key["sk"]["S"]) for key in keys}
    return [item for item in items if (item.pk, item.sk) in places]


def delete_request(table: str, keys: Sequence[Key]) -> dict[str, Any]:
    """Return the request of BatchWriteItem that deletes keys."""
    check_keys(keys)
    places = [{"pk": {"S": pk}, "sk": {"S": sk}} for pk, sk in keys]
    return {"RequestItems": {table: [{"DeleteRequest": {"Key": place}} for place in places]}}


def undeleted(table: str, answer: Any) -> list[Key]:
    """Return the keys that DynamoDB left unprocessed."""
    left = answer["UnprocessedItems"].get(table, ())
    places = [each["DeleteRequest"]["Key"] for each in left]
    return [(place["pk"]["S"], place["sk"]["S"]) for place in places]


def lines_request(table: str, name: str, after: str, before: str) -> dict[str, Any]:
    """Return the request of Query for a list, from its end."""
    condition, names = "#list = :list", {"#list": "list"}
    values = {":list": {"S": name}}
    if after or before:
        bounds = {":after": after, ":before": before}
        condition += f" AND #place {_COMPARED[bool(after), bool(before)]}"
        names["#place"] = "place"
        values |= {bound: {"S": place} for bound, place in bounds.items() if place}
    return {
        "TableName": table,
        "IndexName": LINES,
        "KeyConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
        "ScanIndexForward": False,
    }


def read_lines(page: Any, now: datetime, after: str, before: str) -> list[Item]:
    """Return the live lines on a page, without those at the bounds, which BETWEEN includes."""
    bounds = (after, before)
    return [item for item in read_items(page, now) if item.line and item.line.place not in bounds]


def query_request(table: str, pk: str, prefix: str) -> dict[str, Any]:
    """Return the request of Query for a partition or the ``prefix`` there, strongly consistent."""
    condition = "#pk = :pk"
    names, values = {"#pk": "pk"}, {":pk": {"S": pk}}
    if prefix:  # DynamoDB takes no empty text for a key
        condition += " AND begins_with(#sk, :prefix)"
        names["#sk"] = "sk"
        values[":prefix"] = {"S": prefix}
    return {
        "TableName": table,
        "KeyConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
        "ConsistentRead": True,
    }


def read_items(page: Any, now: datetime) -> list[Item]:
    """Return the live items on a page of a Query.

    An item that can't be read is left out, and logged without its content: a foreign writer of one
    item must not be able to hide the others.
    """
    found: list[Item] = []
    for each in page["Items"]:
        try:
            item = decode(each)
        except ItemUnreadable as error:
            _log.warning("skipping an item that can't be read: %s", error)
            continue
        if lives(item, now):
            found.append(item)
    return found


def page_request(table: str, pk: str, after: str, limit: int) -> dict[str, Any]:
    """Return the request of Query for one page of a partition, strongly consistent."""
    request = {**query_request(table, pk, ""), "Limit": limit}
    if after:
        request["ExclusiveStartKey"] = {"pk": {"S": pk}, "sk": {"S": after}}
    return request


def read_page(page: Any, now: datetime) -> Page:
    """Return the live items of a Query's page, and where the next one begins."""
    last = page.get("LastEvaluatedKey")
    return Page(items=read_items(page, now), after=last["sk"]["S"] if last else "")


def scan_request(table: str, path: Sequence[str], value: str, after: str) -> dict[str, Any]:
    """Return the request of Scan for one page of a table's items with a text at a path."""
    names = {f"#n{number}": name for number, name in enumerate(("data", *path))}
    request: dict[str, Any] = {
        "TableName": table,
        "FilterExpression": f"{'.'.join(names)} = :value",
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {":value": {"S": value}},
        "ConsistentRead": True,
    }
    if after:
        pk, sk = json.loads(after)
        request["ExclusiveStartKey"] = {"pk": {"S": pk}, "sk": {"S": sk}}
    return request


def read_scanned(page: Any, now: datetime) -> Page:
    """Return the live items of a Scan's page, and where the next one begins."""
    last = page.get("LastEvaluatedKey")
    after = json.dumps([last["pk"]["S"], last["sk"]["S"]]) if last else ""
    return Page(items=read_items(page, now), after=after)


def turn_page(request: dict[str, Any], page: Any) -> bool:
    """Make a Query ask for the page after this one; False if there is none."""
    if last := page.get("LastEvaluatedKey"):
        request["ExclusiveStartKey"] = last
    return bool(last)


def get_request(table: str, pk: str, sk: str) -> dict[str, Any]:
    """Return the request of GetItem, strongly consistent."""
    return {"TableName": table, "Key": {"pk": {"S": pk}, "sk": {"S": sk}}, "ConsistentRead": True}


def read_item(found: Attributes | None, now: datetime) -> Item | None:
    """Return the item in an answer, if there is a live one."""
    item = decode(found) if found else None
    return item if item and lives(item, now) else None


def written_once(item: Item) -> Attributes:
    """Return an item as one call of `replace` writes it, distinct from that of any other call."""
    return {**encode_next(item), _WRITE: {"S": uuid4().hex}}


def replace_request(table: str, written: Attributes, version: int, now: datetime) -> dict[str, Any]:
    """Return the request of PutItem, conditional on the table's holding the previous version."""
    # In whole seconds, as ``expires_at`` is, so that the fraction of now makes no difference.
    values: dict[str, Attribute] = {":now": {"N": str(math.floor(now.timestamp()))}}
    if version == 1:
        condition = "attribute_not_exists(#pk) OR #expires_at <= :now"
        names = {"#pk": "pk", "#expires_at": "expires_at"}
    else:
        condition = (
            "#version = :before AND (attribute_not_exists(#expires_at) OR #expires_at > :now)"
        )
        names = {"#version": "version", "#expires_at": "expires_at"}
        values[":before"] = {"N": str(version - 1)}
    return {
        "TableName": table,
        "Item": written,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def read_refusal(item: Item, written: Attributes, found: Attributes, now: datetime) -> Item | None:
    """Return the result of `AsyncTable.replace` if DynamoDB holds ``found``."""
    if found.get(_WRITE) == written[_WRITE]:
        return None
    return read_item(found, now) or Item(pk=item.pk, sk=item.sk)
