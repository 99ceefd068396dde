"""Summaries, chunks, the classifier, and what votes prove."""

from __future__ import annotations

from itertools import pairwise

from examples.assistant.language import Classifier, chunks, sentences, summary, wilson, words

TEXT = "Cats eat. Dogs bark and run. Rain falls on the roof! Cats eat fish."


def test_sentences_and_words_are_told_apart() -> None:
    assert sentences(TEXT)[2] == "Rain falls on the roof!"
    assert words("Don't stop: 42 times") == ["don't", "stop", "42", "times"]


def test_a_summary_has_the_sentences_that_say_most_in_their_order() -> None:
    assert summary([TEXT], 2) == "Cats eat. Cats eat fish."
    assert summary([], 2) == ""


def test_chunks_overlap_by_whole_sentences_and_lose_none() -> None:
    text = " ".join(f"This is sentence {number}." for number in range(10))
    found = list(chunks(text, size=12, overlap=4))
    assert all(len(words(chunk)) <= 12 for chunk in found)
    assert {each for chunk in found for each in sentences(chunk)} == set(sentences(text))
    for one, following in pairwise(found):
        assert sentences(one)[-1] == sentences(following)[0]


def test_a_sentence_that_is_too_long_is_a_chunk_of_its_own() -> None:
    assert list(chunks("One two three four. Five.", size=2, overlap=1)) == [
        "One two three four.",
        "Five.",
    ]


def test_a_classifier_goes_by_the_words_that_a_label_is_seen_with() -> None:
    model = Classifier.trained(
        [("play some jazz", "music"), ("play a song", "music"), ("will it rain", "weather")]
    )
    assert model.label("a jazz song") == "music"
    assert model.label("rain tomorrow") == "weather"
    assert Classifier.trained([]).label("anything") is None


def test_few_votes_prove_less_than_many() -> None:
    assert wilson(0, 0) == 0
    assert wilson(2, 2) < wilson(90, 100) < 0.9
