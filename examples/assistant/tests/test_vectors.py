"""Clusters by cosine, and the index."""

from __future__ import annotations

import math
import random

import pytest

from examples.assistant.vectors import build_index, centre, clusters, cosine, recall, unit


def angle(degrees: float) -> tuple[float, float]:
    return math.cos(math.radians(degrees)), math.sin(math.radians(degrees))


def test_a_cosine_is_one_for_the_same_direction_and_zero_at_a_right_angle() -> None:
    assert cosine(unit([2, 0]), unit([5, 0])) == 1
    assert cosine(unit([1, 0]), unit([0, 3])) == 0
    assert unit([0, 0]) == (0, 0)


def test_vectors_within_the_threshold_of_a_centre_are_one_cluster() -> None:
    near = math.cos(math.radians(20))
    vectors = {"a": angle(0), "b": angle(15), "c": angle(90), "d": angle(100)}
    assert clusters(vectors, near) == [["a", "b"], ["c", "d"]]


def test_a_chain_of_small_steps_does_not_join_what_is_far_apart() -> None:
    chain = {str(step): angle(10 * step) for step in range(10)}
    found = clusters(chain, math.cos(math.radians(20)))
    assert len(found) > 2
    for group in found:
        assert len(group) <= 4


def test_a_centre_leans_towards_the_heavier_vector() -> None:
    leaning = centre([(angle(0), 3.0), (angle(90), 1.0)])
    assert cosine(leaning, angle(0)) > cosine(leaning, angle(90)) > 0
    with pytest.raises(ValueError, match="no vectors"):
        centre([])


def test_an_index_has_every_vector_once_and_finds_the_neighbours() -> None:
    rng = random.Random(7)  # noqa: S311 - test data
    topics = [[rng.gauss(0, 1) for _ in range(16)] for _ in range(6)]
    vectors = {
        f"{topic}-{number}": unit([part + rng.gauss(0, 0.2) for part in topics[topic]])
        for topic in range(6)
        for number in range(8)
    }
    index = build_index(vectors, 6)
    assert sorted(name for names in index.lists for name in names) == sorted(vectors)
    assert recall(index, vectors, vectors, count=3, probes=1) > 0.95
    assert recall(index, vectors, vectors, count=3, probes=len(index.lists)) == 1
    assert build_index(vectors, 6) == index


def test_an_index_of_nothing_finds_nothing() -> None:
    assert build_index({}, 3).search({}, (1.0,), count=3, probes=1) == []
    assert recall(build_index({}, 3), {}, [], count=3, probes=1) == 1
