"""A child process's end of its channel: one thread listens, any thread may speak."""

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
    """What the worker says, sorted by a thread of its own, so that it is heard during a job too.

    When the worker is gone, so is this process: a job whose message is shown again must not go on.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)  # what handlers start must not keep it open
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._calls: dict[int, Future[Any]] = {}
        self._orders: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self.on_cancel: Callable[[], None] = nothing
        """Called in the listening thread when the job should end early."""

    def listen(self) -> None:
        """Begin to listen; ends this process when the worker's end is closed."""
        threading.Thread(target=self._listen, name="headgate-channel", daemon=True).start()

    def next_order(self) -> Frame:
        """Wait for what to do next: a SETUP, RUN or STOP."""
        return self._orders.get()

    def send(self, frame: bytes) -> None:
        """Send what `workers.isolation.protocol` encoded."""
        with self._sending:
            self._socket.sendall(frame)

    def request(self, kind: str, data: Any) -> Future[Any]:
        """Ask the worker for something; the future has the answer, or the worker's error.

        Args:
            kind: one of the keys of the pool's ``answers``.
            data: JSON values.

        Raises:
            FrameError: JSON can't hold the data.
        """
        number = next(self._numbers)
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()  # from now on nobody can cancel it, so it is set once
        frame = protocol.encode(Kind.CALL, number=number, name=kind, data=data)
        self._calls[number] = answer
        self.send(frame)
        return answer

    def call(self, kind: str, data: Any) -> Any:
        """`request`, and wait for the answer."""
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
    """The worker's error if it is one of Headgate's that a message alone makes, else their root."""
    kind = getattr(errors, name, None)
    if (
        isinstance(kind, type)
        and issubclass(kind, errors.HeadgateError)
        and kind.__init__ is Exception.__init__
    ):
        return kind(message)
    return errors.HeadgateError(f"{name}: {message}")


def _end() -> NoReturn:
    """End this process, with all that its handlers started, whatever its main thread does."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def nothing() -> None:
    """No job runs."""
