"""Vectors on the unit sphere: similarity, clusters, and an index for nearest neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Vector = tuple[float, ...]


def unit(vector: Sequence[float]) -> Vector:
    """Return the vector of length 1 in that direction; zeros stay zeros."""
    length = math.sqrt(math.fsum(part * part for part in vector))
    return tuple(part / length for part in vector) if length else tuple(vector)


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of the angle between two unit vectors, -1 to 1."""
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def centre(weighted: Iterable[tuple[Vector, float]]) -> Vector:
    """Return the direction of a weighted sum of vectors.

    Raises:
        ValueError: there are none.
    """
    scaled = [[part * weight for part in vector] for vector, weight in weighted]
    if not scaled:
        raise ValueError("there is no centre of no vectors")
    return unit([math.fsum(parts) for parts in zip(*scaled, strict=True)])


def clusters(vectors: Mapping[str, Vector], threshold: float) -> list[list[str]]:
    """Group vectors by cosine, in the order given, so that important ones should come first.

    Each joins the cluster whose centre is nearest, if their cosine is ``threshold`` or more, and
    begins one of its own otherwise. Comparing with centres rather than with single members keeps a
    chain of small steps from joining what has nothing in common.
    """
    found: list[list[str]] = []
    centres: list[Vector] = []
    for name, vector in vectors.items():
        near = max(range(len(found)), key=lambda at: cosine(centres[at], vector), default=None)
        if near is None or cosine(centres[near], vector) < threshold:
            found.append([name])
            centres.append(vector)
        else:
            found[near].append(name)
            centres[near] = centre((vectors[member], 1.0) for member in found[near])
    return found


@dataclass(frozen=True, slots=True)
class Index:
    """An inverted file: a search compares only with the vectors nearest to a few centres."""

    centres: tuple[Vector, ...]
    lists: tuple[tuple[str, ...], ...]
    """The names of the vectors that are nearest to each centre."""

    def search(
        self, vectors: Mapping[str, Vector], query: Vector, *, count: int, probes: int
    ) -> list[str]:
        """Return the names of the nearest vectors in the ``probes`` nearest lists."""
        order = sorted(range(len(self.centres)), key=lambda at: -cosine(self.centres[at], query))
        names = [name for at in order[:probes] for name in self.lists[at]]
        return nearest(vectors, names, query, count)


def nearest(
    vectors: Mapping[str, Vector], names: Iterable[str], query: Vector, count: int
) -> list[str]:
    """Return the names of the vectors nearest to a query, among those named."""
    return sorted(names, key=lambda name: (-cosine(vectors[name], query), name))[:count]


def build_index(vectors: Mapping[str, Vector], lists: int, *, rounds: int = 20) -> Index:
    """Cluster vectors by spherical k-means into at most that many lists.

    Begins with vectors that are far apart, so that the outcome depends on the vectors alone.

    I. S. Dhillon and D. S. Modha, Concept Decompositions for Large Sparse Text Data Using
    Clustering, Machine Learning 42, 2001.
    """
    centres = _far_apart(vectors, lists)
    members: list[list[str]] = []
    for _ in range(rounds):
        assigned = _assigned(vectors, centres)
        if assigned == members:
            break
        members = assigned
        centres = [centre((vectors[name], 1.0) for name in group) for group in members]
    return Index(tuple(centres), tuple(map(tuple, members)))


def recall(
    index: Index, vectors: Mapping[str, Vector], queries: Iterable[str], *, count: int, probes: int
) -> float:
    """Return the share of true nearest neighbours that a search by the index finds."""
    found = wanted = 0
    for query in queries:
        true = set(nearest(vectors, vectors, vectors[query], count))
        seen = index.search(vectors, vectors[query], count=count, probes=probes)
        found += len(true.intersection(seen))
        wanted += len(true)
    return found / wanted if wanted else 1.0


def _far_apart(vectors: Mapping[str, Vector], count: int) -> list[Vector]:
    chosen: list[Vector] = []
    left = dict(sorted(vectors.items()))
    while left and len(chosen) < count:
        name = min(
            left, key=lambda each: max((cosine(left[each], one) for one in chosen), default=0)
        )
        chosen.append(left.pop(name))
    return chosen


def _assigned(vectors: Mapping[str, Vector], centres: Sequence[Vector]) -> list[list[str]]:
    """Return the names nearest to each centre, without those that none is nearest to."""
    groups: list[list[str]] = [[] for _ in centres]
    for name, vector in vectors.items():
        groups[max(range(len(centres)), key=lambda at: cosine(centres[at], vector))].append(name)
    return [group for group in groups if group]
