"""The current folder, where modules are looked for first, as ``python -m`` and uvicorn do.

An app lives there, and its modules win over installed packages of the same name. But a ``boto3.py``
there, left by somebody or written on purpose, would run in the place of AWS's SDK, with the role's
credentials. So nothing is imported from a folder with a module of such a name.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

from headgate.jobs.errors import ConfigurationError

OURS = frozenset(
    {
        "headgate",
        # what Headgate depends on, with all extras, and what that depends on
        *("aiobotocore", "aiohappyeyeballs", "aiohttp", "aioitertools", "aiosignal"),
        *("annotated_doc", "annotated_types", "anyio", "attr", "attrs", "aws_cdk"),
        "aws_lambda_powertools",
        *("_yaml", "yaml"),
        *("_cffi_backend", "boto3", "botocore", "cattr", "cattrs", "cdk_nag", "certifi", "cffi"),
        *("click", "constructs"),
        *("cryptography", "dateutil"),
        *("frozenlist", "h11", "idna", "jinja2", "jmespath", "jsii", "markdown_it", "markupsafe"),
        *("mdurl", "multidict"),
        *("opentelemetry", "packaging", "prometheus_client", "propcache", "psutil", "publication"),
        "pycparser",
        *("pydantic", "pydantic_core", "pygments", "pythonjsonlogger", "rich", "s3transfer"),
        "sentry_sdk",
        *("shellingham", "six", "starlette", "typeguard", "typer", "typing_extensions"),
        *("typing_inspection", "urllib3", "uvicorn", "uvloop", "watchfiles", "wrapt", "yarl"),
        # the modules of Python's own library that Headgate imports
        *("__future__", "abc", "asyncio", "atexit", "base64", "binascii", "builtins", "calendar"),
        *("code", "collections"),
        *("concurrent", "contextlib", "contextvars", "copy", "dataclasses", "datetime", "decimal"),
        *("difflib", "email", "enum", "errno", "faulthandler", "fcntl", "functools", "gc"),
        *("getpass", "gzip", "hashlib", "heapq", "hmac", "http", "importlib", "inspect", "io"),
        "ipaddress",
        *(
            "itertools",
            "json",
            "keyword",
            "logging",
            "math",
            "mimetypes",
            "operator",
            "os",
            "pathlib",
        ),
        *("platform", "queue", "readline", "rlcompleter"),
        *(
            "random",
            "re",
            "reprlib",
            "secrets",
            "select",
            "selectors",
            "shlex",
            "shutil",
            "signal",
            "socket",
            "sqlite3",
        ),
        *("ssl", "stat", "struct", "subprocess", "sys", "sysconfig", "tempfile", "textwrap"),
        "threading",
        *("time", "traceback", "types", "typing", "urllib", "uuid", "venv", "weakref", "zlib"),
        *("zipfile", "zoneinfo"),
    }
)
"""The names, as they are imported, of Headgate and of what it imports."""


def look_here_first() -> None:
    """Put the current folder first on the import path, unless it is on it already.

    Raises:
        ConfigurationError: it has a module that would shadow one of `OURS`.
    """
    here = str(Path.cwd())
    check_folder(here)
    if here not in sys.path:
        sys.path.insert(0, here)


def check_folder(folder: str) -> None:
    """Check that a folder on the import path shadows none of `OURS`.

    A module that is not installed anywhere else is not shadowed. One that has been imported from
    the folder is the one that is meant, as in a checkout of Headgate's own sources.

    Raises:
        ConfigurationError: it shadows one; names the file.
    """
    elsewhere = [place for place in sys.path if place not in ("", folder)]
    for name in sorted(OURS):
        here = PathFinder.find_spec(name, [folder])
        if here is None or here.origin is None:  # a folder that is no package wins over none
            continue
        loaded = getattr(sys.modules.get(name), "__file__", None)
        if loaded is not None and Path(loaded).resolve() == Path(here.origin).resolve():
            continue
        if PathFinder.find_spec(name, elsewhere) is not None:
            raise ConfigurationError(
                f"{here.origin} would be imported in place of {_described(name)}, which Headgate "
                "needs, as the current folder comes first: rename it, or move it into a package"
            )


def _described(name: str) -> str:
    if name in sys.stdlib_module_names:
        return f"Python's own module {name!r}"
    return f"the installed package {name!r}"
