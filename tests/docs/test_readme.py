"""The README's code, run as a reader would: block after block, on a local AWS."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import ModuleType

import pytest

from jobs.app import App
from jobs.aws.provision import provision
from tests.support.environment import REGION, with_test_credentials

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def _python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def _run(code: str, module: ModuleType) -> None:
    exec(compile(code, "README.md", "exec"), vars(module))  # noqa: S102 - it is ours


def test_every_python_block_of_the_readme_runs_in_order(
    ministack: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", ministack)
    readme = ModuleType("readme")
    blocks = _python_blocks()
    declaring, *others = blocks
    _run(declaring, readme)
    app = readme.app
    assert isinstance(app, App)
    asyncio.run(provision(app.topology, endpoint_url=ministack, region=REGION))
    for block in others:
        _run(block, readme)
    assert readme.job.type == "greet"
    assert set(readme.app.types) >= {"greet", "daily-report", "sync-stock"}


def test_the_first_job_takes_ten_lines() -> None:
    lines = [line for line in _python_blocks()[0].splitlines() if line.strip()]
    assert len(lines) <= 10


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\((?!http)([^)#]+)\)", README))))
def test_every_file_that_the_readme_links_to_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_make_target_that_the_readme_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", README)) <= targets
