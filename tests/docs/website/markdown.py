"""The parts of a Markdown page that the site needs: title, first sentence, anchors and links."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"#{1,6} (.+)")
_LINK = re.compile(r"`[^`]*`|(?P<opening>\]\()(?P<target>[^)\s]+)(?P<closing>\))")
_FILE_NAME = re.compile(r"\[[\w./-]+\.md\]\((?P<target>[^)\s]+\.md(#[^)\s]*)?)\)")
_ITEM = re.compile(r"([-*]|\d+\.) ")
_MARKUP = re.compile(r"[`*]|!?\[([^\]]*)\]\([^)]*\)|<!--.*?-->")


def title(text: str) -> str:
    """Return the text of a page's first heading."""
    return next(_headings(text))


def short_title(text: str) -> str:
    """Return a page's title up to its colon."""
    return title(text).partition(":")[0]


def summary(text: str) -> str:
    """Return the first sentence of a page's prose."""
    paragraphs = "\n".join(_prose(text)).split("\n\n")
    plain = [" ".join(_plain(each).split()) for each in paragraphs if _is_prose(each)]
    first = next(each for each in plain if each.endswith((".", ":")))
    return re.split(r"(?<=\.)\s", first, maxsplit=1)[0].rstrip(":")


def _is_prose(paragraph: str) -> bool:
    return bool(re.match(r"\n*[A-Z`\[]", paragraph))


def anchors(text: str) -> set[str]:
    """Return the anchors that a page's headings have both on GitHub and on the site."""
    return {_on_github(each) for each in _headings(text) if _on_github(each) == _on_the_site(each)}


def links(text: str) -> list[str]:
    """Return the targets of a page's links and images, but for those outside the repository."""
    found = (match["target"] for line in _prose(text) for match in _LINK.finditer(line))
    return [target for target in found if target and not re.match(r"[a-z]+:", target)]


def relinked(text: str, new: Callable[[str], str]) -> str:
    """Return a page with other targets for its links, but for those outside the repository."""

    def replaced(match: re.Match[str]) -> str:
        target = match["target"]
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        return f"{match['opening']}{new(target)}{match['closing']}"

    lines = text.split("\n")
    for number, line in _numbered_prose(text):
        lines[number] = _LINK.sub(replaced, line)
    return "\n".join(lines)


def titled(text: str, name: Callable[[str], str]) -> str:
    """Return a page whose links, where they said a file's name, say what ``name`` makes of it."""
    return _FILE_NAME.sub(lambda found: f"[{name(found['target'])}]({found['target']})", text)


def indented(text: str) -> str:
    """Return a page whose lists are indented by four columns, as Python's Markdown wants them."""
    lines, shift, in_list, fence = [], 0, False, None
    for line in text.split("\n"):
        opening = _FENCE.match(line)
        if not fence and line.strip():
            depth = len(line) - len(line.lstrip())
            in_list = bool(_ITEM.match(line)) or (in_list and depth > 0)
            shift = 4 - depth if in_list and depth in (2, 3) else 0
        if opening:
            fence = None if fence == opening[1] else fence or opening[1]
        lines.append(f"{' ' * shift}{line}" if line.strip() else line)
    return "\n".join(lines)


def _headings(text: str) -> Iterator[str]:
    for line in _prose(text):
        if found := _HEADING.fullmatch(line):
            yield _plain(found[1]).strip()


def _prose(text: str) -> Iterator[str]:
    return (line for _, line in _numbered_prose(text))


def _numbered_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside blocks of code, with their numbers from 0."""
    inside = None
    for number, line in enumerate(text.split("\n")):
        fence = _FENCE.match(line)
        if fence and inside in (None, fence[1]):
            inside = None if inside else fence[1]
        elif not inside:
            yield number, line


def _plain(text: str) -> str:
    return _MARKUP.sub(lambda match: match[1] or "", text)


def _on_github(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _on_the_site(heading: str) -> str:
    ascii_only = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())
