"""Libraries that are not installed, as a command learns of them: by an import that fails."""

from __future__ import annotations

from headgate.jobs.errors import LibraryMissing

_EXTRAS = {
    **dict.fromkeys(("aiobotocore", "aiohttp"), "worker"),
    **dict.fromkeys(("prometheus_client", "psutil", "pythonjsonlogger"), "worker"),
    "rich": "ops",
    **dict.fromkeys(("jinja2", "starlette", "uvicorn"), "console"),
    "watchfiles": "local",
    **dict.fromkeys(("aws_cdk", "cdk_nag", "constructs", "packaging"), "infra"),
    "yaml": "export",
    "aws_lambda_powertools": "lambda",
    "cryptography": "encryption",
}
"""The extra that brings each library, by the name under which it is imported."""


def missing_library(error: BaseException) -> LibraryMissing | None:
    """Return what to install if a library of an extra could not be imported; None for all else."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    library = error.name.partition(".")[0]
    if (extra := _EXTRAS.get(library)) is None:
        return None
    return LibraryMissing("this command", library, f"headgate[{extra}]")
