"""The pages as the site's generator reads them: in one folder, with links that fit."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from tests.docs.website.markdown import (
    indented,
    links,
    relinked,
    short_title,
    summary,
    title,
    titled,
)
from tests.docs.website.navigation import navigation
from tests.docs.website.places import pages, place

_CONFIGURATION = Path(__file__).with_name("zensical.toml")
_SUMMARY = "Background jobs on AWS SQS and EventBridge, in Python."


def stage(folder: Path) -> None:
    """Write the pages, the files that they link to, and the generator's settings."""
    shutil.rmtree(folder, ignore_errors=True)
    found = pages()
    texts = {name: path.read_text() for path, name in found.items()}
    for path, name in found.items():
        named = titled(indented(texts[name]), partial(_named, path=path, found=found))
        moved = relinked(named, partial(_moved, path=path, found=found))
        # The generator reads code without running it, and then `headgate.events` has no names.
        shown = moved.replace("::: headgate.events.", "::: headgate.jobs.core.events.")
        _write(folder / "pages" / name, shown)
        for linked in _files(path, texts[name]) - found.keys():
            _copy(linked, folder / "pages" / place(linked, found))
    order = navigation(found.values())
    configuration = _CONFIGURATION.read_text()
    _write(folder / "zensical.toml", configuration.replace("nav = []", _toml(order, texts)))
    _write(folder / "pages" / "llms.txt", llms(order, texts))


def llms(order: Mapping[str, Iterable[str]], texts: Mapping[str, str]) -> str:
    """Return the list of all pages for language models, by the form of llms.txt."""
    lines = ["# Headgate", "", f"> {_SUMMARY}"]
    for section, names in order.items():
        lines += ["", f"## {section}", ""]
        lines += [f"- [{title(texts[name])}]({name}): {summary(texts[name])}" for name in names]
    return "\n".join(lines) + "\n"


def _named(target: str, path: Path, found: dict[Path, str]) -> str:
    """Return the title of the page that a link leads to."""
    there = (path.parent / target.partition("#")[0]).resolve()
    return short_title(there.read_text()) if there in found else there.name


def _moved(target: str, path: Path, found: dict[Path, str]) -> str:
    """Return a link's target as seen from a page's place on the site."""
    file, hash_, anchor = target.partition("#")
    if not file:
        return target
    there = place((path.parent / file).resolve(), found)
    here = Path(found[path]).parent
    return f"{Path(os.path.relpath(there, here)).as_posix()}{hash_}{anchor}"


def _files(path: Path, text: str) -> set[Path]:
    return {
        (path.parent / each.partition("#")[0]).resolve()
        for each in links(text)
        if not each.startswith("#")
    }


def _toml(order: Mapping[str, Iterable[str]], texts: Mapping[str, str]) -> str:
    lines = ["nav = ["]
    for section, names in order.items():
        lines.append(f"  {{ {json.dumps(section)} = [")
        for name in names:
            short = json.dumps(short_title(texts[name]))
            lines.append(f"    {{ {short} = {json.dumps(name)} }},")
        lines.append("  ] },")
    return "\n".join([*lines, "]"])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
