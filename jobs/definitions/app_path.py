"""Import paths of apps: loading an app by its path, and finding the path of an app."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.importing import imported
from headgate.jobs.errors import AppImportError, ConfigurationError, did_you_mean
from headgate.jobs.values.texts import kind_of

_MAINS = ("__main__", "__mp_main__")
"""Names of a program's own module; the second is that in children of `multiprocessing`."""


def load_app(path: str) -> App:
    """Return the `App` at ``module:attribute``, such as ``shop.app:app``.

    Raises:
        AppImportError: the path is malformed, the module can't be imported, it has no such
            attribute, or the attribute is not an App.
    """
    module_name, attribute = read_app_path(path)
    module = imported(module_name, f"the app path {path!r}")
    if not hasattr(module, attribute):
        raise AppImportError(
            f"the module {module_name!r} was imported, but has no {attribute!r}"
            f"{_instead(module, attribute)}"
        )
    found = getattr(module, attribute)
    if not isinstance(found, App):
        raise AppImportError(
            f"{path!r} is {kind_of(found)}, not a headgate App{_instead(module, attribute)}"
        )
    return found


def _instead(module: ModuleType, attribute: str) -> str:
    """Return the end of an error about an attribute: the module's apps."""
    apps = [name for name, value in vars(module).items() if isinstance(value, App)]
    if not apps:
        return ", and no App by another name: write app = App(...) at its top level"
    return f": {did_you_mean(attribute, apps)}"


def read_app_path(path: str) -> tuple[str, str]:
    """Return the module's name and the attribute of ``module:attribute``, and import nothing.

    Raises:
        AppImportError: the path is malformed.
    """
    module, _, attribute = path.partition(":")
    if not _is_dotted(module) or not attribute.isidentifier():
        named = _module_at(module)
        name = attribute if attribute.isidentifier() else "app"
        raise AppImportError(
            f"{path!r} is not an app path: write module:attribute, as in "
            f"{named if _is_dotted(named) else 'shop.app'}:{name}"
        )
    return module, attribute


def _module_at(file: str) -> str:
    """Return a module's name, if that was given as the path of its file."""
    return file.removeprefix("./").removesuffix(".py").strip("/").replace("/", ".")


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def app_path(app: App) -> str:
    """Return an app's ``module:attribute``, for `load_app` in another process.

    Raises:
        ConfigurationError: no importable module has the app as a variable.
    """
    places = [*_places(app)]
    # A program's own module comes last: imported by its other name, it would run again.
    for module, attribute in sorted(places, key=lambda place: place[0].__name__ in _MAINS):
        if name := _importable_name(module):
            return f"{name}:{attribute}"
    raise ConfigurationError(
        f"no other process could find the app {app.name!r}, as workers on AWS and handlers with "
        "isolation='process' have to: make it a variable at the top level of a module that can be "
        "imported, such as app = App(...) in shop/app.py"
    )


def _places(app: App) -> Iterator[tuple[ModuleType, str]]:
    for module in [*sys.modules.values()]:
        # sys.modules may hold any object; some libraries put lazy importers there.
        if isinstance(module, ModuleType):
            for attribute, value in [*vars(module).items()]:
                if value is app:
                    yield module, attribute


def _importable_name(module: ModuleType) -> str | None:
    if module.__spec__ is not None:
        return module.__spec__.name  # right for `python -m shop.app`, too: __name__ is __main__
    if module.__name__ not in _MAINS:
        return None  # created at run time
    return _name_of_script(module)


def _name_of_script(module: ModuleType) -> str | None:
    """Return the name by which ``python path/to/script.py`` can be imported, or None."""
    script = getattr(module, "__file__", None)
    if script is None:
        return None  # an interactive session
    name = Path(script).stem
    found = None if "." in name else importlib.util.find_spec(name)
    if found is None or found.origin is None or not Path(found.origin).samefile(script):
        return None
    return name
