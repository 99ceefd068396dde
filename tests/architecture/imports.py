"""Import graphs, read from the sources of any tree of Headgate."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGES = ("jobs", "workers", "lambdas", "infra", "ops")

Graph = Mapping[str, set[str]]
"""Each module, or package, with the ones that it imports."""


def imported_by(node: ast.AST, *, for_types: bool = False) -> Iterator[str]:
    """Yield the dotted names that some code imports, anywhere in it.

    Args:
        node: the code.
        for_types: include those below ``if TYPE_CHECKING:``.
    """
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.ImportFrom():
                raise AssertionError(f"a relative import: {ast.unparse(child)}")
            case _ if for_types or not is_type_checking(child):
                yield from imported_by(child, for_types=for_types)


def is_type_checking(node: ast.AST) -> bool:
    """Return True for an ``if TYPE_CHECKING:``."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def modules_below(root: Path) -> dict[str, Path]:
    """Return the modules of a tree's packages by their dotted names, without ``headgate``."""
    found = (path for package in PACKAGES for path in sorted((root / package).rglob("*.py")))
    return {_dotted(path.relative_to(root)): path for path in found}


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def module_graph(root: Path, *, for_types: bool) -> Graph:
    """Return the import graph of a tree's modules; a package stands for its ``__init__``."""
    modules = modules_below(root)
    return {
        name: {
            target
            for imported in imported_by(ast.parse(path.read_text()), for_types=for_types)
            if (target := _module_of(imported.removeprefix("headgate."), modules))
        }
        - {name}
        for name, path in modules.items()
    }


def _module_of(name: str, modules: Mapping[str, Path]) -> str:
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def package_graph(modules: Graph) -> Graph:
    """Return the import graph of packages such as ``jobs.core``, and of modules next to them."""
    graph: dict[str, set[str]] = {}
    for name, imported in modules.items():
        package = _package_of(name)
        others = {_package_of(target) for target in imported}
        graph.setdefault(package, set()).update(others - {package})
    return graph


def _package_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def circles(graph: Graph) -> list[list[str]]:
    """Return the largest sets in which each member imports, directly or not, all the others."""
    reached = {name: _reached(name, graph) for name in graph}
    found = {
        frozenset(other for other in within if name in reached[other])
        for name, within in reached.items()
        if name in within
    }
    return sorted(sorted(circle) for circle in found)


def _reached(start: str, graph: Graph) -> set[str]:
    seen: set[str] = set()
    ahead = [*graph[start]]
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead += graph[name]
    return seen
