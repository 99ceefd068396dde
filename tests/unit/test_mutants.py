"""The list of mutants fits the current code; `make mutants` tries them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mutants.catalogue import ROOT, Mutant, catalogue

MUTANTS = list(catalogue())


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


def test_mutants_have_names_of_their_own_and_there_are_enough() -> None:
    twice = {name for name, times in Counter(each.name for each in MUTANTS).items() if times > 1}
    assert not twice
    assert len(MUTANTS) >= 80
