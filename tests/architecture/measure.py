"""``make measure-code``: the sizes of the code's pieces, and their dependencies.

``python -m tests.architecture.measure PATH`` measures another tree, such as an earlier commit's.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median, quantiles

from tests.architecture.imports import (
    PACKAGES,
    Graph,
    circles,
    module_graph,
    modules_below,
    package_graph,
)

ROOT = Path(__file__).parents[2]
QUESTIONS = ("what", "how", "who", "whether", "why")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A file, a class or a function's body."""

    lines: int
    name: str

    def __str__(self) -> str:
        return f"{self.lines}  ({self.name})"


class Sources:
    """All modules of one tree, parsed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._texts = {name: path.read_text() for name, path in modules_below(root).items()}
        self._trees = {name: ast.parse(text) for name, text in self._texts.items()}

    @property
    def files(self) -> list[Piece]:
        """Yield each file, blank lines included."""
        return [
            Piece(lines=len(text.splitlines()), name=name) for name, text in self._texts.items()
        ]

    @property
    def classes(self) -> list[Piece]:
        """Return each class from its ``class`` to its end, docstrings included."""
        return [
            Piece(lines=_end(node) - node.lineno + 1, name=f"{module}.{node.name}")
            for module, node in self._nodes
            if isinstance(node, ast.ClassDef)
        ]

    @property
    def bodies(self) -> list[Piece]:
        """Return each function from the first statement after its docstring to its end."""
        return [
            Piece(lines=_lines_of_body(node), name=f"{module}.{node.name}")
            for module, node in self._nodes
            if isinstance(node, Function)
        ]

    @cached_property
    def _nodes(self) -> list[tuple[str, ast.AST]]:
        return [(name, node) for name, tree in self._trees.items() for node in ast.walk(tree)]

    def public_functions(self) -> Iterator[Function]:
        """Yield functions and methods without a private part in their name."""
        for tree in self._trees.values():
            yield from _public_in(tree)

    def docstrings(self) -> list[str]:
        """Return the docstrings of modules, classes, functions and attributes."""
        return [text for _, node in self._nodes for text in _docstrings_of(node)]


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _lines_of_body(function: Function) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return _end(function) - body[0].lineno + 1 if body else 0


def _public_in(node: ast.Module | ast.ClassDef) -> Iterator[Function]:
    for child in node.body:
        match child:
            case ast.ClassDef(name=name) if not name.startswith("_"):
                yield from _public_in(child)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if not name.startswith("_"):
                    yield child


def is_typed(function: Function) -> bool:
    """Return True if every parameter but ``self`` and ``cls``, and the result, is annotated."""
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return function.returns is not None and all(
        each is None or each.annotation is not None or each.arg in ("self", "cls") for each in named
    )


def _docstrings_of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, Documented) and (text := ast.get_docstring(node)):
        yield text
    if isinstance(node, ast.Module | ast.ClassDef):
        for before, after in zip(node.body, node.body[1:], strict=False):
            if isinstance(before, ast.Assign | ast.AnnAssign) and (text := _text(after)):
                yield text


def _text(node: ast.stmt) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
    return ""


def asks(docstring: str) -> bool:
    """Return True if a docstring begins like a question."""
    return docstring.split(maxsplit=1)[0].lower().rstrip(",:;") in QUESTIONS if docstring else False


def measures(root: Path) -> Iterator[tuple[str, object]]:
    """Yield each measure with its value."""
    sources = Sources(root)
    for package, (folder, count) in largest_folders(root).items():
        yield f"modules in the largest folder of {package}/", f"{count}  ({folder})"
    lines = [body.lines for body in sources.bodies]
    yield "function bodies, median and 90th percentile", f"{median(lines):g}, {_p90(lines):g}"
    yield "longest body", _largest(sources.bodies)
    yield "biggest class", _largest(sources.classes)
    yield "biggest file", _largest(sources.files)
    public = [*sources.public_functions()]
    yield "public functions with all types", _share(public, [f for f in public if is_typed(f)])
    docstrings = sources.docstrings()
    asking = [text for text in docstrings if asks(text)]
    yield "docstrings that begin with What, How, Who, Whether or Why", _share(docstrings, asking)
    in_packages = Counter[str]()
    for file in sources.files:
        in_packages[file.name.partition(".")[0]] += file.lines
    yield "lines of jobs/ and workers/", in_packages["jobs"] + in_packages["workers"]
    yield "lines of all", in_packages.total()


def largest_folders(root: Path) -> dict[str, tuple[str, int]]:
    """Return each package's folder with the most modules, less ``__init__``, and their number."""
    found: dict[str, tuple[str, int]] = {}
    for package in PACKAGES:
        modules = [path for path in (root / package).rglob("*.py") if path.stem != "__init__"]
        folders = Counter(str(path.parent.relative_to(root)) for path in modules)
        [found[package]] = folders.most_common(1)
    return found


def _largest(pieces: Sequence[Piece]) -> Piece:
    return max(pieces, key=lambda piece: piece.lines)


def _p90(lines: Sequence[int]) -> float:
    return quantiles(lines, n=10, method="inclusive")[-1]


def _share(all_: Sequence[object], some: Sequence[object]) -> str:
    return f"{len(some) / len(all_):.1%}  ({len(some)} of {len(all_)})"


def all_circles(root: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the import cycles of modules and of packages, without and with imports for typing."""
    for for_types in (False, True):
        modules = module_graph(root, for_types=for_types)
        graphs: Mapping[str, Graph] = {"modules": modules, "packages": package_graph(modules)}
        for what, graph in graphs.items():
            besides = ", imports for type checkers included" if for_types else ""
            yield f"circles of {what}{besides}", circles(graph)


def main() -> int:
    """Print all measures of a tree."""
    parser = argparse.ArgumentParser(prog="python -m tests.architecture.measure")
    parser.add_argument("tree", nargs="?", type=Path, default=ROOT, help="this one by default")
    root = parser.parse_args().tree.resolve()
    for name, value in measures(root):
        print(f"{name:<62} {value}")
    for name, found in all_circles(root):
        print(f"{name:<62} {len(found)}")
        for circle in found:
            print(f"    {len(circle)}: {', '.join(circle)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
