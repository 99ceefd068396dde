"""Replays of signed messages: what they send is signed, and nothing that a stranger has written."""

from __future__ import annotations

import asyncio
from typing import Any

from headgate import App, DeadLetterFilter, Retry, Signing
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.dead_letters.copies import SavedLetter
from headgate.jobs.dead_letters.importing import message_of
from headgate.jobs.dead_letters.letter import LetterContent
from headgate.jobs.messages.signatures import Destination, SigningKey, parted, signed
from headgate.testing import Harness
from tests.support.replays import ReplayBench, bench_of

NORMAL, HIGH, LETTERS = "shop-jobs-normal", "shop-jobs-high", "shop-jobs-normal-dlq"
SECRET = "shop-signing"  # noqa: S105 - a name
KEY = b"a key of thirty-two bytes or more"
EVERYTHING = DeadLetterFilter()


class Shop:
    """An app whose messages are signed, and whose jobs die until they are mended."""

    def __init__(self) -> None:
        self.app = App("shop", priorities="all", signing=Signing())
        self.is_mended = False
        self.ran: list[str] = []

        @self.app.job("send", retry=Retry(max_attempts=1))
        async def send(note: dict[str, Any]) -> None:
            if not self.is_mended:
                raise ValueError
            self.ran.append(note["text"])

        self.send = send
        self.jobs = Harness(self.app)
        self.bench: ReplayBench = bench_of(self.jobs)
        self.bench.backend.secrets.put(SECRET, KEY)

    def dead(self, *texts: str) -> list[str]:
        """Let jobs die; return the bodies of their letters."""
        for text in texts:
            self.jobs.client.submit(self.send, {"text": text})
        self.jobs.drain()
        self.jobs.clock.advance(600)
        return [letter.body for letter in self.jobs.dead_letters()]

    def put_letter(self, body: str) -> None:
        attributes = {"Reason": "permanent-error", "JobType": "send"}
        letter = OutgoingMessage(body=body, attributes=attributes)
        assert self.jobs.sqs.sync.send(LETTERS, [letter]) == []


def test_a_replayed_job_is_signed_anew_and_runs() -> None:
    shop = Shop()
    [body] = shop.dead("ada")
    shop.bench.replay(EVERYTHING, set={"text": "bob"}, priority="high")
    [message] = shop.jobs.sqs.messages(HIGH)
    text, _ = parted(message.body)
    assert message.body == signed(text, SigningKey(KEY), Destination(queue=HIGH))
    assert message.body.count('"signature"') == 1
    shop.is_mended = True
    shop.jobs.drain()
    assert (shop.ran, shop.jobs.dead_letters()) == (["bob"], [])
    assert body != message.body


def test_no_replay_makes_a_job_of_what_a_stranger_has_written() -> None:
    shop = Shop()
    [body] = shop.dead("ada")
    forged = {
        "altered": body.replace('"ada"', '"eve"'),
        "unsigned": parted(body)[0],
        "of another queue": signed(body, SigningKey(KEY), Destination(queue=HIGH)),
        "by another key": signed(body, SigningKey(KEY[::-1]), Destination(queue=NORMAL)),
    }
    for each in forged.values():
        shop.put_letter(each)
    report = shop.bench.replay(EVERYTHING)
    assert (report.sent, report.refused) == (1, len(forged))
    assert {each.body for each in shop.jobs.dead_letters()} == set(forged.values())
    rehearsed = asyncio.run(shop.bench.replays().rehearse(EVERYTHING, shop.bench.options()))
    assert (rehearsed.sent, rehearsed.refused) == (0, len(forged))


def test_a_letter_that_was_saved_and_imported_keeps_its_signature() -> None:
    shop = Shop()
    [body] = shop.dead("ada")
    [letter] = shop.jobs.dead_letters()
    saved = SavedLetter(
        queue=LETTERS,
        message_id=letter.message_id,
        content=LetterContent(body=body, attributes=letter.attributes, group=None),
    )
    assert message_of(saved).body == body
    shop.is_mended = True
    assert shop.bench.replay(EVERYTHING).sent == 1
    shop.jobs.drain()
    assert shop.ran == ["ada"]


def test_a_letter_of_the_key_before_can_be_replayed_after_a_rotation() -> None:
    shop = Shop()
    shop.dead("ada")
    shop.bench.backend.secrets.put(SECRET, KEY[::-1])
    shop.is_mended = True
    assert shop.bench.replay(EVERYTHING).sent == 1
    shop.jobs.clock.advance(300)
    shop.jobs.drain()
    assert (shop.ran, shop.jobs.dead_letters()) == (["ada"], [])
