"""The shop's app as the command line imports it: ``headgate worker examples.shop.app:app``."""

from examples.shop.contracts import app

__all__ = ["app"]
