"""The list of mutants fits the current code; `make mutants` tries them."""

from __future__ import annotations

import builtins
import keyword
import re
from collections import Counter

import pytest

from tests.mutants.catalogue import ROOT, Mutant, catalogue

MUTANTS = list(catalogue())

_KNOWN = {*dir(builtins), *keyword.kwlist}
_TEXTS = re.compile(r'"[^"\n]*"|#.*')
_NAMES = re.compile(r"\bself\.(\w+)|(?<![.\w])([A-Za-z_]\w*)")
"""Attributes of ``self``, and names that are no attributes."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.area}/{mutant.name}")
def test_a_mutant_changes_one_place_of_its_file_and_names_tests_that_exist(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text()
    assert mutant.applied(source) != source
    assert mutant.breaks.endswith(".")
    assert mutant.tests
    for test in mutant.tests:
        path, *names = test.split("::")
        text = (ROOT / path).read_text()
        assert all(f"def {name}(" in text for name in names), test


def test_a_replacement_uses_only_names_that_its_file_knows() -> None:
    strange = {each.name: names for each in MUTANTS if (names := _unknown_names(each))}
    assert not strange, "it would change nothing, or fail for a reason of its own"


def _unknown_names(mutant: Mutant) -> set[str]:
    words = set(re.findall(r"\w+", (ROOT / mutant.file).read_text()))
    used = _NAMES.findall(_TEXTS.sub("", mutant.replacement))
    return {attribute or name for attribute, name in used} - words - _KNOWN


def test_mutants_have_names_of_their_own_and_there_are_enough() -> None:
    twice = {name for name, times in Counter(each.name for each in MUTANTS).items() if times > 1}
    assert not twice
    assert len(MUTANTS) >= 80
