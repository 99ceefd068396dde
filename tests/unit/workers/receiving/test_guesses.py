"""Guesses of what a queue holds: halved by each silence, and full again after any message."""

from __future__ import annotations

from headgate.workers.receiving.guesses import Guesses

_HIGH, _LOW = (1, 0.2), (3, 0.05)


def test_each_silence_halves_the_guess_down_to_one() -> None:
    guesses = Guesses()
    found = []
    for _ in range(6):
        found.append(guesses.of(_LOW))
        guesses.silent(_LOW)
    assert found == [10, 5, 2, 1, 1, 1]


def test_messages_from_one_queue_are_expected_from_its_peers() -> None:
    guesses = Guesses()
    for _ in range(100):
        guesses.silent(_LOW)
    assert not guesses.is_full(_LOW)
    guesses.brought(_LOW)
    assert guesses.is_full(_LOW)
    assert guesses.of(_LOW) == 10


def test_silence_at_one_priority_says_nothing_about_others() -> None:
    guesses = Guesses()
    guesses.silent(_LOW)
    assert guesses.of(_HIGH) == 10
    assert guesses.is_full(_HIGH)
