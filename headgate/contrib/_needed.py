"""The error of an integration whose framework is not installed."""

from __future__ import annotations

from headgate.errors import ConfigurationError


def needed(integration: str, error: ModuleNotFoundError) -> ConfigurationError:
    """Return the error that names what to install.

    Args:
        integration: the module's name, such as ``fastapi``.
        error: the failed import.
    """
    library = (error.name or integration).partition(".")[0].replace("_", "-")
    return ConfigurationError(
        f"headgate.contrib.{integration} needs {library}: pip install {library}"
    )
