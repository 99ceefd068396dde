"""The error of an integration whose framework is not installed."""

from __future__ import annotations

from headgate.errors import LibraryMissing


def needed(integration: str, error: ModuleNotFoundError) -> LibraryMissing:
    """Return the error that names what to install.

    Args:
        integration: the module's name, such as ``fastapi``.
        error: the failed import.
    """
    library = (error.name or integration).partition(".")[0].replace("_", "-")
    return LibraryMissing(f"headgate.contrib.{integration}", library, library)
