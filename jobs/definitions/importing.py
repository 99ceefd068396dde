"""Importing users' modules, with errors that tell what is missing where."""

from __future__ import annotations

import importlib
from types import ModuleType

from headgate.jobs.errors import AppImportError, HeadgateError


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
            "which is not installed"
        ) from error
    except HeadgateError:
        raise
    except Exception as error:
        raise AppImportError(
            f"{wanted_by}: importing the module {module!r} raised {type(error).__name__}: {error}"
        ) from error
