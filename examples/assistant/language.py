"""Plain statistics of language: sentences, summaries, chunks, and a classifier."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_COMMON = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "i",
        "in",
        "is",
        "it",
        "of",
        "on",
        "or",
        "that",
        "the",
        "to",
        "was",
        "you",
    ]
)


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return _WORD.findall(text.lower())


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [each for each in _SENTENCE_END.split(text.strip()) if each]


def summary(texts: Iterable[str], count: int) -> str:
    """Return the sentences that say most of what is said, in their order.

    A sentence scores the mean frequency of its words, common ones left out.

    H. P. Luhn, The Automatic Creation of Literature Abstracts, IBM Journal 2 (2), 1958.
    """
    found = list(dict.fromkeys(each for text in texts for each in sentences(text)))
    frequency = Counter(word for each in found for word in _telling(each))

    def score(sentence: str) -> float:
        telling = _telling(sentence)
        return sum(frequency[word] for word in telling) / len(telling) if telling else 0.0

    best = sorted(found, key=score, reverse=True)[:count]
    return " ".join(each for each in found if each in best)


def chunks(text: str, size: int, overlap: int) -> Iterator[str]:
    """Split a text between sentences into chunks of at most ``size`` words.

    Each repeats the last sentences of the one before, up to ``overlap`` words, so that nothing is
    torn from its context. A sentence longer than ``size`` is a chunk of its own.
    """
    current: list[str] = []
    for sentence in sentences(text):
        if current and _length(current) + len(words(sentence)) > size:
            yield " ".join(current)
            while current and _length(current) > overlap:
                current.pop(0)
        current.append(sentence)
    if current:
        yield " ".join(current)


@dataclass(frozen=True, slots=True)
class Classifier:
    """Multinomial naive Bayes: which label a text most likely has."""

    labels: dict[str, int]
    """Number of texts by label."""
    counts: dict[str, Counter[str]]
    """Number of each word by label."""

    @classmethod
    def trained(cls, examples: Iterable[tuple[str, str]]) -> Classifier:
        """Count the words of examples, each a text with its label."""
        labels: Counter[str] = Counter()
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for text, label in examples:
            labels[label] += 1
            counts[label].update(_telling(text))
        return cls(dict(labels), dict(counts))

    def label(self, text: str) -> str | None:
        """Return the most likely label; None if there are none. Equal ones go by name."""
        vocabulary = len(set().union(*self.counts.values())) if self.counts else 0
        telling = _telling(text)

        def likelihood(label: str) -> float:
            seen, total = self.counts[label], self.counts[label].total() + vocabulary + 1
            prior = math.log(self.labels[label] / sum(self.labels.values()))
            return prior + sum(math.log((seen[word] + 1) / total) for word in telling)

        return max(sorted(self.labels), key=likelihood, default=None)


def wilson(positive: int, total: int) -> float:
    """Return the lower bound of a share of successes, at 95 %: few votes prove little.

    E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 22,
    1927.
    """
    if not total:
        return 0.0
    z, share = 1.96, positive / total
    spread = z * math.sqrt((share * (1 - share) + z * z / (4 * total)) / total)
    return (share + z * z / (2 * total) - spread) / (1 + z * z / total)


def _telling(text: str) -> list[str]:
    return [word for word in words(text) if word not in _COMMON]


def _length(texts: Sequence[str]) -> int:
    return sum(len(words(text)) for text in texts)
