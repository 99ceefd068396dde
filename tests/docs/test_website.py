"""The pages lead to each other, and the site shows all of them."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import headgate
import headgate.errors
import headgate.events
import headgate.infra
import headgate.testing
from tests.docs.website.markdown import anchors, indented, links, relinked, summary, title
from tests.docs.website.navigation import SECTIONS, navigation
from tests.docs.website.places import ROOT, pages
from tests.docs.website.staging import llms, stage

PAGES = pages()
SHOWN = [
    name
    for page in sorted((ROOT / "docs" / "reference").glob("*.md"))
    for name in re.findall(r"^::: (.*)$", page.read_text(), re.MULTILINE)
]
"""The names that the reference shows."""

PAGE = """\
# Limits: what waits

See [the list](list.md#rates), `[no](link)`, and ![a picture](images/a.png). [Out](https://x.org).

```python
answer[0](b)  # [code](is-left.md)
```

## `RateLimit` and others
"""


@pytest.mark.parametrize("path", PAGES, ids=PAGES.get)
def test_every_link_of_a_page_leads_to_a_file_and_to_one_of_its_headings(path: Path) -> None:
    for target in dict.fromkeys(links(path.read_text())):
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.is_file(), target
        assert not anchor or anchor in anchors(there.read_text()), target


def test_every_page_stands_once_in_the_navigation() -> None:
    shown = [name for names in navigation(PAGES.values()).values() for name in names]
    assert sorted(shown) == sorted(PAGES.values())


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "concepts").glob("*.md")), ids=lambda page: page.stem
)
def test_every_concept_has_a_picture_and_then_code(page: Path) -> None:
    picture, _, code = page.read_text().partition("\n```python\n")
    assert "\n```mermaid\n" in picture
    assert code


def test_a_page_in_no_section_and_a_section_of_no_page_are_refused() -> None:
    with pytest.raises(ValueError, match=r"add stray\.md to SECTIONS"):
        navigation([*PAGES.values(), "stray.md"])
    with pytest.raises(ValueError, match=r"names quickstart\.md, which is no page"):
        navigation(set(PAGES.values()) - {"quickstart.md"})


def test_the_list_for_language_models_names_every_page_in_its_section() -> None:
    texts = {name: path.read_text() for path, name in PAGES.items()}
    written = llms(navigation(texts), texts)
    assert [line[3:] for line in written.splitlines() if line[:3] == "## "] == [*SECTIONS]
    assert all(f"]({name}): " in written for name in texts)


@pytest.mark.parametrize(
    "module", [headgate, headgate.testing, headgate.errors, headgate.events, headgate.infra]
)
def test_every_public_name_is_in_the_reference_once(module: ModuleType) -> None:
    assert len(SHOWN) == len(set(SHOWN))
    public = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if inspect.isclass(value)
    ]
    assert {*public} <= {name.rpartition(".")[2] for name in SHOWN}


def test_every_name_of_the_reference_can_be_imported() -> None:
    for name in SHOWN:
        home, _, attribute = name.rpartition(".")
        module = import_module(home)
        assert attribute in {*dir(module), *getattr(module, "__all__", ())}, name


def test_staged_pages_link_to_staged_files(tmp_path: Path) -> None:
    stage(tmp_path)
    staged = [*(tmp_path / "pages").rglob("*.md")]
    assert len(staged) == len(PAGES)
    for page in staged:
        for target in links(page.read_text()):
            assert (page.parent / target.partition("#")[0]).exists(), f"{target} of {page}"
    assert "[Declaring jobs](declaring.md)" in (tmp_path / "pages" / "deploy.md").read_text()
    assert "nav = []" not in (tmp_path / "zensical.toml").read_text()


def test_code_holds_no_links_and_a_heading_loses_its_markup() -> None:
    assert links(PAGE) == ["list.md#rates", "images/a.png"]
    assert title(PAGE) == "Limits: what waits"
    assert summary(PAGE) == "See the list, no, and a picture."
    assert anchors(PAGE) == {"limits-what-waits", "ratelimit-and-others"}
    moved = relinked(PAGE, lambda target: f"there/{target}")
    assert "(there/list.md#rates)" in moved
    assert "[code](is-left.md)" in moved
    assert "[no](link)" in moved


def test_the_content_of_a_list_is_indented_by_four_and_nothing_else_is_moved() -> None:
    page = "1. one\n\n   ```sh\n   a\n     b\n   ```\n\n   - two\n\nnone\n\n```\n  c\n```\n"
    moved = "1. one\n\n    ```sh\n    a\n      b\n    ```\n\n    - two\n\nnone\n\n```\n  c\n```\n"
    assert indented(page) == moved
