"""Importing users' modules, with errors that tell what is missing where."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from headgate.jobs.errors import AppImportError, HeadgateError
from headgate.jobs.values.tracebacks import users_frames


def imported(module: str, wanted_by: str) -> ModuleType:
    """Return a module.

    Args:
        module: its name.
        wanted_by: the place that names it, for errors.

    Raises:
        AppImportError: it can't be imported.
        HeadgateError: it declares something that is wrong.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            raise AppImportError(
                f"{wanted_by}: there is no module {error.name!r}. "
                f"Looked in the current directory and the installed packages"
            ) from error
        raise AppImportError(
            f"{wanted_by}: the module {module!r} was found, but it imports {error.name!r}, "
            f"which is not installed{_place(error)}"
        ) from error
    except HeadgateError as error:
        if place := _place(error):
            error.add_note(place)
        raise
    except (Exception, SystemExit) as error:  # a program's own main(), called as it is imported
        raise AppImportError(
            f"{wanted_by}: importing the module {module!r} raised {type(error).__name__}: "
            f"{error}{_place(error)}"
        ) from error


def _place(error: BaseException) -> str:
    """Return where the user's code is at fault, as the end of a sentence; empty if it isn't."""
    if isinstance(error, SyntaxError) or not (frames := users_frames(error)):
        return ""  # a syntax error names its place itself
    last = frames[-1]
    where = f" ({_shown(last.filename)}, line {last.lineno}"
    return f"{where}: {last.line})" if last.line else f"{where})"


def _shown(filename: str) -> str:
    """Return a file's path, from the current folder if it is there."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
