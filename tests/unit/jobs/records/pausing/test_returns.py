"""The returns of paused messages that are recorded."""

from __future__ import annotations

from headgate.jobs.records.pausing.returns import is_told


def test_the_first_returns_are_told_and_then_every_eighth() -> None:
    told = [receive for receive in range(1, 50) if is_told(receive)]
    assert told == [1, 2, 4, 8, 16, 24, 32, 40, 48]


def test_a_message_that_uses_up_its_receives_under_a_pause_writes_few_records() -> None:
    assert sum(map(is_told, range(1, 1_000))) == 127
