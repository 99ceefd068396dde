"""Forms that are carried out once, however often a browser sends them: by a double click, or by a
reload of what they lead to. Each has an id of its own, which its page was made with."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

FIELD = "form"
"""The field with the id."""

LONGEST_ID = 64

_MOST_KEPT = 1_000


def new_form_id() -> str:
    """Return the id of a form on a page that is being made."""
    return secrets.token_urlsafe(12)


class SentForms:
    """The paths to which the latest forms have led, by their ids. Thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Future[str]] = OrderedDict()
        self._lock = threading.Lock()

    def once(self, form_id: str, carry_out: Callable[[], str]) -> str:
        """Carry a form out, or wait for who does; return the path that it leads to.

        What fails may be sent again. Raises whatever ``carry_out`` does.
        """
        with self._lock:
            known = self._kept.get(form_id)
            own: Future[str] = Future()
            if known is None:
                self._kept[form_id] = own
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        if known is not None:
            return known.result()
        try:
            path = carry_out()
        except BaseException as error:
            with self._lock:
                self._kept.pop(form_id, None)
            own.set_exception(error)
            raise
        own.set_result(path)
        return path
