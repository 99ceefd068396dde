"""A child process's end of its channel: one thread receives, any thread may send."""

from __future__ import annotations

import itertools
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NoReturn

from headgate.jobs import errors
from headgate.workers.isolation import protocol
from headgate.workers.isolation.protocol import Frame, Kind


class Channel:
    """The channel to the worker, read by its own thread, so that frames arrive during jobs too.

    This process ends with the worker: a job whose message becomes visible again must not go on.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)  # processes that handlers start must not keep it open
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._calls: dict[int, Future[Any]] = {}
        self._orders: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self.on_cancel: Callable[[], None] = nothing
        """Called in the listening thread when the job should end early."""

    def listen(self) -> None:
        """Start to receive; ends this process when the worker's end is closed."""
        threading.Thread(target=self._listen, name="headgate-channel", daemon=True).start()

    def next_order(self) -> Frame:
        """Return the next order: a SETUP, RUN or STOP; waits for it."""
        return self._orders.get()

    def send(self, frame: bytes) -> None:
        """Send a frame encoded by `workers.isolation.protocol`."""
        with self._sending:
            self._socket.sendall(frame)

    def request(self, kind: str, data: Any) -> Future[Any]:
        """Send a request to the worker; the future gets its answer, or its error.

        Args:
            kind: one of the keys of the pool's ``answers``.
            data: JSON values.

        Raises:
            FrameError: JSON can't hold the data.
        """
        number = next(self._numbers)
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()  # can't be cancelled any more, so it is set just once
        frame = protocol.encode(Kind.CALL, number=number, name=kind, data=data)
        self._calls[number] = answer
        self.send(frame)
        return answer

    def call(self, kind: str, data: Any) -> Any:
        """Send a `request`, and return its answer."""
        return self.request(kind, data).result()

    def _listen(self) -> None:
        try:
            while (frame := protocol.receive(self._socket)) is not None:
                self._sort(frame)
        finally:
            _end()

    def _sort(self, frame: Frame) -> None:
        match frame["kind"]:
            case Kind.ANSWER:
                self._answered(frame)
            case Kind.CANCEL:
                self.on_cancel()
            case _:
                self._orders.put(frame)

    def _answered(self, frame: Frame) -> None:
        answer = self._calls.pop(frame["number"])
        if "error_type" in frame:
            answer.set_exception(_error_of(frame["error_type"], frame["message"]))
        else:
            answer.set_result(frame["value"])


def _error_of(name: str, message: str) -> Exception:
    """Return the worker's error, as `HeadgateError` unless its own class takes only a message."""
    kind = getattr(errors, name, None)
    if (
        isinstance(kind, type)
        and issubclass(kind, errors.HeadgateError)
        and kind.__init__ is Exception.__init__
    ):
        return kind(message)
    return errors.HeadgateError(f"{name}: {message}")


def _end() -> NoReturn:
    """End this process and all those that its handlers started, whatever its main thread does."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def nothing() -> None:
    """Do nothing: no job runs."""
