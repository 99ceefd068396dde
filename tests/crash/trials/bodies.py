"""Random message bodies: nearly valid envelopes, foreign formats, and others."""

from __future__ import annotations

import json
import random
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

SECRET = "what-only-the-user-may-see"  # noqa: S105 - stands for a payload
"""A text in the payload of each body, which must be in no line of a log."""

_NOT_SQS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that SQS refuses.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html"""

_TEXTS = ("", "\u202e", "\ufffd", "\U0001f600", "None", "done\n", "x" * 3_000, "é" * 999, "<b>")
_NUMBERS = (-1, 0, 1, 1e300, -1e300, 1e-320, 2**63, 10**30, 10**4_299, float("nan"), float("inf"))
_TIMES = (
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "1970-01-01T00:00:00Z",
    "2026-01-01",
    "+275760-09-13T00:00:00Z",
    "now",
)
_PAST = ("1970-01-01T00:00:00Z", "2025-12-31T23:59:59+14:00")
_FIELDS = (
    "v",
    "id",
    "type",
    "schema",
    "payload",
    "payload_ref",
    "queue",
    "priority",
    "submitted_at",
    "tenant",
    "trace",
    "source",
    "parent",
    "attempts_used",
    "options",
)
_DEPTHS = (10, 150, 199, 201, 250, 5_000)
_LARGEST_CUT = 4
"""Maximum bytes cut out at once: few, so that a payload's text never becomes a type's name."""


class Bodies:
    """An endless iterator of random bodies.

    Args:
        rng: the source of randomness.
        types: the names of the app's job types.
    """

    def __init__(self, rng: random.Random, types: Sequence[str]) -> None:
        self._rng = rng
        self._types = types
        self._makers: tuple[tuple[int, Callable[[], str]], ...] = (
            (10, lambda: json.dumps(self._envelope())),
            (40, self._nearly_valid),
            (20, lambda: self._damaged(json.dumps(self._envelope()))),
            (10, self._foreign),
            (10, lambda: json.dumps(self._anything(3) | {"note": SECRET})),
            (5, self._deep),
            (5, self._noise),
        )

    def __iter__(self) -> Iterator[str]:
        """Yield bodies endlessly."""
        weights = [weight for weight, _ in self._makers]
        makers = [maker for _, maker in self._makers]
        while True:
            [make] = self._rng.choices(makers, weights)
            if body := _NOT_SQS.sub("?", make()):
                yield body

    def _envelope(self) -> dict[str, Any]:
        return {
            "v": 1,
            "id": str(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
            "type": self._rng.choice(self._types),
            "payload": {"text": SECRET},
            "queue": "work",
            "priority": "normal",
            "submitted_at": "2026-01-01T00:00:00Z",
        }

    def _nearly_valid(self) -> str:
        """Return an envelope with one to three fields altered, duplicated or left out."""
        made = self._envelope()
        for name in self._rng.sample(_FIELDS, self._rng.randint(1, 3)):
            if self._rng.random() < 1 / 5:
                made.pop(name, None)
            else:
                made[name] = self._value(name)
        text = json.dumps(made)
        if self._rng.random() < 1 / 10:  # the last of two fields of one name counts
            name = self._rng.choice(_FIELDS)
            text = f"{text[:-1]},{json.dumps(name)}:{json.dumps(self._value(name))}}}"
        if self._rng.random() < 1 / 20:
            text = text.replace(SECRET, SECRET + r"\ud800", 1)
        return text

    def _value(self, name: str) -> Any:
        if name == "payload":
            return self._anything(3) | {"text": SECRET, "rest": self._leaf()}
        if name == "submitted_at" and self._rng.random() < 1 / 2:
            return self._rng.choice(_TIMES)
        if name == "options":
            options = {"attempts": self._leaf(), "timeout_s": self._leaf(), "unique": self._leaf()}
            return dict(self._rng.sample([*options.items()], self._rng.randint(0, 3)))
        if name == "tenant" and self._rng.random() < 1 / 2:
            return {"org": self._leaf()}
        if name == "payload_ref":
            return {
                "key": "payloads/x",
                "sha256": "0" * 64,
                "size": self._leaf(),
                "encoding": "gzip",
            }
        return self._leaf()

    def _leaf(self) -> Any:
        kind = self._rng.randrange(6)
        if kind == 0:
            return self._rng.choice(_TEXTS)
        if kind == 1:
            return self._rng.choice(_NUMBERS)
        if kind == 2:
            return self._rng.choice([None, True, False, [], {}, [[]], {"": None}])
        if kind == 3:
            return self._rng.choice([*self._types, "from-the-future", "de ad", "x" * 128, *_PAST])
        if kind == 4:
            return self._rng.randint(-5, 5)
        return chr(self._rng.choice([0x20, 0x7F, 0x85, 0xA0, 0x2028, 0xFEFF, 0xE000, 0x10FFFF])) * 3

    def _anything(self, depth: int) -> dict[str, Any]:
        return {
            str(self._leaf())[:20]: self._anything(depth - 1)
            if depth and self._rng.random() < 1 / 3
            else self._leaf()
            for _ in range(self._rng.randint(0, 4))
        }

    def _damaged(self, text: str) -> str:
        """Return the text cut off, or with one to four small pieces changed, removed or added."""
        if self._rng.random() < 1 / 4:
            return text[: self._rng.randint(1, len(text))]
        for _ in range(self._rng.randint(1, 4)):
            at = self._rng.randrange(len(text))
            piece = self._rng.choice(
                ["", "\\", '"', "{", "}", "[", ",", ":", "\\u", "\\udfff", "é"]
            )
            text = text[:at] + piece + text[at + self._rng.randint(0, _LARGEST_CUT) :]
        return text

    def _foreign(self) -> str:
        """Return a body as S3, SNS, EventBridge and others send it, with a fault in it."""
        return json.dumps(
            self._rng.choice(
                [
                    {"Records": [{"s3": self._leaf(), "eventSource": "aws:s3"}], "note": SECRET},
                    {"Records": self._leaf(), "note": SECRET},
                    {"Type": "Notification", "Message": SECRET, "TopicArn": self._leaf()},
                    {"Type": self._leaf(), "Message": self._leaf(), "note": SECRET},
                    {"detail": {"text": SECRET}, "source": self._leaf(), "id": self._leaf()},
                    {"detail-type": self._leaf(), "detail": self._leaf(), "note": SECRET},
                    {"Event": "s3:TestEvent", "Service": self._leaf(), "note": SECRET},
                    [SECRET, self._leaf()],
                ]
            )
        )

    def _deep(self) -> str:
        depth = self._rng.choice(_DEPTHS)
        if self._rng.random() < 1 / 2:
            return self._rng.choice(["[", '{"a":', '[{"b":']) * depth
        inner = json.dumps(self._envelope())[:-1]
        return f'{inner},"rest":{"[" * depth}{"]" * depth}}}'

    def _noise(self) -> str:
        data = self._rng.randbytes(self._rng.randint(1, 300))
        return SECRET + data.decode(self._rng.choice(["latin-1", "utf-16-le"]), errors="replace")
