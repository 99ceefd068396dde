"""mypy over samples.py, line by line: exactly the expected errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]
SAMPLES = Path(__file__).parent / "samples.py"

# mypy reads the whole library for it: a minute and a half of CPU where nothing is in its cache.
pytestmark = pytest.mark.timeout(600)

EXPECTED = re.compile(r"# type: ignore\[([a-z-]+)\]")


def expected() -> set[tuple[int, str]]:
    """Return the lines that declare an expected error, with its code."""
    lines = SAMPLES.read_text().splitlines()
    found = ((number, EXPECTED.search(line)) for number, line in enumerate(lines, start=1))
    return {(number, match[1]) for number, match in found if match}


@pytest.fixture(scope="module")
def reported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return mypy's errors on the samples without their ignores."""
    assert request.config.cache is not None
    bare = tmp_path_factory.mktemp("samples") / "bare_samples.py"
    bare.write_text(EXPECTED.sub("", SAMPLES.read_text()))
    arguments = [f"--cache-dir={request.config.cache.mkdir('mypy')}", "--no-error-summary"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)  # the project's configuration, and jobs itself, are found from here
        said, failed, _ = api.run([*arguments, str(bare)])
    assert not failed, failed
    return said


def test_each_misuse_is_an_error_at_its_line_and_nothing_else_is(reported: str) -> None:
    errors = re.findall(r"bare_samples\.py:(\d+): error: .* \[([a-z-]+)\]$", reported, re.MULTILINE)
    assert {(int(line), code) for line, code in errors} == expected(), reported
