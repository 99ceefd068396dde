"""Gaps of the local servers, as of moto 5.2.5, MiniStack 1.5.33 and ElasticMQ 1.6.14.

Each gap is exposed by the tests that need its feature: they must fail on that server.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance.servers import Feature

MOTO: Mapping[Feature, str] = {
    Feature.ATTRIBUTE_RULES: "moto takes empty attributes, and more than ten",
    Feature.ATTRIBUTES_IN_SIZE: "moto counts bodies only",
    Feature.DEDUPLICATION_OUTLIVES_DELETE: "moto forgets a deduplication id with its message",
    Feature.FIFO_DELAY_FAILS_ALONE: "moto refuses the whole batch",
    Feature.FIFO_RECEIPTS_EXPIRE: "moto takes the receipt of any delivery",
    Feature.SIZE_IN_BYTES: "moto counts characters",
    Feature.XML_CHARACTERS: "moto takes any character",
}

MOTO_UNSTEADY: Mapping[Feature, str] = {
    Feature.CONCURRENT_RECEIVERS: "moto hands a message to two receivers at once (3 runs of 40)",
}

MINISTACK: Mapping[Feature, str] = {
    Feature.ATTRIBUTE_RULES: "MiniStack takes empty attributes, and more than ten",
    Feature.ATTRIBUTES_IN_SIZE: "MiniStack counts bodies only",
    Feature.DELAY_LIMIT: "MiniStack takes a DelaySeconds above 900",
    Feature.PAST_RECEIPT_DELETES: "MiniStack answers ReceiptHandleIsInvalid for a past delivery",
    Feature.REPEATED_DELETE: "MiniStack answers ReceiptHandleIsInvalid for what is deleted",
    Feature.VISIBILITY_LIMIT: "MiniStack takes a visibility timeout above 43,200 s",
}

ELASTICMQ: Mapping[Feature, str] = {
    Feature.ATTRIBUTE_RULES: "ElasticMQ calls it InvalidAttributeValue",
    Feature.ATTRIBUTES_IN_SIZE: "ElasticMQ takes 256 KiB at most",
    Feature.FULL_SIZE: "ElasticMQ takes 256 KiB at most",
    Feature.PAST_RECEIPT_DELETES: "ElasticMQ answers ReceiptHandleIsInvalid for a past delivery",
    Feature.REPEATED_DELETE: "ElasticMQ answers ReceiptHandleIsInvalid for what is deleted",
    Feature.VISIBILITY_LIMIT: "ElasticMQ takes a visibility timeout above 43,200 s",
    Feature.XML_CHARACTERS: "ElasticMQ calls it InvalidAttributeValue",
}
