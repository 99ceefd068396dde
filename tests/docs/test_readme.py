"""The documents' code, run as a reader would: block after block."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from sqlalchemy import Engine

from headgate import JobOptions
from headgate.jobs.aws.provision import provision
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import load_handlers
from headgate.jobs.execution.outcome import Reason
from tests.support.environment import REGION, with_test_credentials
from tests.support.loggers import restored

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*/README.md")])
NAMES = ["_".join(page.relative_to(ROOT).with_suffix("").parts) for page in PAGES]


def _python_blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def _run(code: str, module: ModuleType) -> None:
    exec(compile(code, module.__name__, "exec"), vars(module))  # noqa: S102 - it is ours


@pytest.fixture(autouse=True)
def headgates_logger() -> Iterator[None]:
    """Restore Headgate's logger, which a page's Lambda consumer sets up for the whole process."""
    with restored():
        yield


def test_every_python_block_of_the_readme_runs_in_order(
    ministack: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", ministack)
    readme = ModuleType("readme")
    blocks = _python_blocks(README)
    declaring, *others = blocks
    _run(declaring, readme)
    app = readme.app
    assert isinstance(app, App)
    asyncio.run(provision(app.topology, endpoint_url=ministack, region=REGION))
    readme.welcome("Ada")
    for block in others:
        _run(block, readme)


def test_the_readme_lists_all_pages() -> None:
    # But for the reference, whose pages only the site renders.
    guides = [page.relative_to(ROOT) for page in PAGES if page.parent.name != "reference"]
    assert [page for page in guides if f"({page.as_posix()}" not in README] == []


def test_the_first_job_and_its_submission_take_twelve_lines() -> None:
    lines = [line for line in _python_blocks(README)[0].splitlines() if line.strip()]
    assert len(lines) <= 12


@pytest.mark.parametrize(("page", "name"), [*zip(PAGES, NAMES, strict=True)], ids=NAMES)
def test_every_python_block_of_a_page_runs_in_order(
    page: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "examples.django.settings")  # for its page
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)  # annotations are looked up there
    for place in re.findall(r"^(?:# |`)((?:web_)?shop/\w+)\.py", page.read_text(), re.MULTILINE):
        # A page whose blocks go into several modules of a project is one module here.
        monkeypatch.setitem(sys.modules, place.replace("/", "."), module)
    for block in _python_blocks(page.read_text()):
        _run(block, module)
    for app in [value for value in vars(module).values() if isinstance(value, App)]:
        load_handlers(app)
    for engine in [value for value in vars(module).values() if isinstance(value, Engine)]:
        engine.dispose()  # or its connection would warn in the test that collects it


def test_every_make_target_that_the_readme_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", README)) <= targets


def test_every_option_of_a_job_type_is_in_the_table() -> None:
    page = (ROOT / "docs" / "declaring.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert {*re.findall(r"`(\w+)`", "".join(rows))} == {*JobOptions.__annotations__}


def test_every_reason_of_a_dead_letter_is_explained() -> None:
    page = (ROOT / "docs" / "dead-letters.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    explained = {word for row in rows for word in re.findall(r"`([a-z-]+)`", row.split("|")[1])}
    assert explained >= set(Reason)
