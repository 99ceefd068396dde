"""What the command line is given: ``headgate worker examples.shop.app:app``."""

from examples.shop.contracts import app

__all__ = ["app"]
