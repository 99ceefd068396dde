"""Flask: an extension with the app's client, and the application context around handlers."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext

from headgate import App, Client
from headgate.contrib._needed import needed

try:
    from flask import Flask
except ModuleNotFoundError as error:
    raise needed("flask", error) from error

__all__ = ["Headgate"]

_NAME = "headgate"


class Headgate:
    """An app's client as an extension of Flask; handlers run in the application context.

    Args:
        app: the app whose jobs are submitted.
        flask: the Flask app; None: `init_app` gets it later, as from an application factory.
        make_client: makes the client; None is ``Client(app)``, with the standard AWS settings.

    Example:
        >>> jobs = Headgate(app)  # doctest: +SKIP
        >>> def create_app() -> Flask:
        ...     web = Flask("shop")
        ...     jobs.init_app(web)
        ...     return web
        >>> jobs.client.submit(send_receipt, Receipt(order=7))
    """

    def __init__(
        self,
        app: App,
        flask: Flask | None = None,
        *,
        make_client: Callable[[], Client] | None = None,
    ) -> None:
        self._flask: Flask | None = None
        self._make_client = make_client or (lambda: Client(app))
        self._client: Client | None = None
        self._opening = threading.Lock()
        app.around(self._in_context)
        if flask is not None:
            self.init_app(flask)

    def init_app(self, flask: Flask) -> None:
        """Become an extension of a Flask app, ``flask.extensions["headgate"]``."""
        self._flask = flask
        flask.extensions[_NAME] = self

    @property
    def client(self) -> Client:
        """The client, which all threads share; opened on first use, closed with the process."""
        with self._opening:
            if self._client is None:
                self._client = self._make_client()
                atexit.register(self._client.close)
            return self._client

    def _in_context(self) -> Iterator[None]:
        with self._flask.app_context() if self._flask is not None else nullcontext():
            yield
