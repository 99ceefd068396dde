"""One run of `headgate dev`: a local AWS, the app's process, and a new one after every edit."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from rich.console import Console
from watchfiles import PythonFilter, awatch

from headgate.jobs.aws.connections.plain_http import is_loopback
from headgate.jobs.errors import ConfigurationError, HeadgateError
from headgate.ops.dev import notes
from headgate.ops.dev.app_process import AppProcess
from headgate.ops.dev.board import Board, Said
from headgate.ops.dev.options import DevOptions
from headgate.ops.dev.screen import Screen
from headgate.ops.dev.surroundings import Surroundings
from headgate.ops.listening import CONSOLE_PORT, listen_nearby, url_of
from headgate.ops.local.aws import LocalAws

PORT = 4566
"""The port of the local AWS, if it is free: that of other emulators, too."""

_DEBOUNCE_MS = 200
_STEP_MS = 20
_REDRAW_S = 1.0
_LOOK_S = 0.5
"""Seconds between two looks whether the local AWS runs on."""
_END_WITHIN_S = 1.8
"""Seconds until a process is killed at the end, for which a person waits."""
_GIVE_BACK_WITHIN_S = 30.0
"""Seconds until one is killed that an edit has replaced. Nobody waits for it, and the messages that
it could not give back would stay hidden from its successor for minutes."""
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run(options: DevOptions, console: Console, python: Path | None) -> None:
    """Run until SIGINT, SIGTERM or SIGHUP; nothing is left afterwards.

    Args:
        options: the command's.
        console: where it draws.
        python: an interpreter that has MiniStack; None is this process's own.

    Raises:
        ConfigurationError: the endpoint is on this machine, and nothing listens there; or the files
            can't be watched.
        HeadgateError: the local AWS did not start, or has ended by itself.
    """
    board = Board()
    with Screen(console, board) as screen, _stopping() as stop, _listening(options) as listener:
        async with _local_aws(options, python, stop, screen) as endpoint_url:
            if stop.is_set():
                return
            surroundings = Surroundings(
                app=options.app, endpoint_url=endpoint_url, environ=os.environ
            )
            if options.endpoint_url is not None:
                await _require_answer(options.endpoint_url)
            _introduce(screen, surroundings, options, listener)
            await _Session(options, surroundings, board, screen, listener).run(stop)


class _Session:
    """The app's process, from its start on: a new one after every edit, which is warm by then."""

    def __init__(
        self,
        options: DevOptions,
        surroundings: Surroundings,
        board: Board,
        screen: Screen,
        listener: socket.socket | None,
    ) -> None:
        self._options = options
        self._surroundings = surroundings
        self._board = board
        self._screen = screen
        self._listener = listener
        self._process: AppProcess | None = None
        self._spare: AppProcess | None = None
        """The process for the next edit, which has no app yet."""
        self._unwatched: OSError | None = None
        """The error that ended the watch."""
        self._settled = asyncio.Event()
        """Set once the present process runs its app, or has ended."""

    async def run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            beside = (
                tasks.create_task(self._redraw(), name="headgate-dev-redraw"),
                tasks.create_task(self._keep_spare(), name="headgate-dev-spare"),
            )
            # A task, which runs once the watch has begun: no edit falls between the two.
            first = tasks.create_task(self._start(tasks), name="headgate-dev-start")
            async for paths in self._edits(stop):
                await first
                names = ", ".join(sorted({path.name for path in paths}))
                self._screen.say(Said(text=f"changed: {names}", style="faint"))
                _forget_compiled(paths)
                await self._start(tasks)
            await first
            for task in beside:
                task.cancel()
            self._show("stopping")
            self._let_go(tasks, self._process, self._spare, within_s=_END_WITHIN_S)
        if self._unwatched is not None:
            raise ConfigurationError(
                f"the files can't be watched: {self._unwatched}. Name the folders of your code "
                "with --watch, or raise the limit, on Linux that of fs.inotify.max_user_watches"
            ) from self._unwatched

    async def _edits(self, stop: asyncio.Event) -> AsyncIterator[set[Path]]:
        """Yield the files of each edit until ``stop`` is set, or until they can't be watched."""
        try:
            async for changes in awatch(
                *self._options.watch,
                watch_filter=PythonFilter(),
                debounce=_DEBOUNCE_MS,
                step=_STEP_MS,
                stop_event=stop,
            ):
                yield {Path(path) for _, path in changes}
        except OSError as error:
            self._unwatched = error

    async def _start(self, tasks: asyncio.TaskGroup) -> None:
        """Start the app in a process; an earlier one ends meanwhile."""
        self._let_go(tasks, self._process, within_s=_GIVE_BACK_WITHIN_S)
        self._board.begin()
        self._screen.draw()
        spare, self._spare = self._spare, None
        if spare is not None and spare.has_ended:  # killed, as for want of memory
            self._let_go(tasks, spare, within_s=_END_WITHIN_S)
            spare = None
        self._process = spare or await self._warmed_up()
        self._process.run(self._board.provisioned)
        tasks.create_task(self._watch_over(self._process), name="headgate-dev-app")

    async def _warmed_up(self) -> AppProcess:
        process = AppProcess(
            self._options.app,
            console=self._listener,
            environment=self._surroundings.environment(),
            hear=self._hear,
        )
        await process.start()
        return process

    async def _keep_spare(self) -> NoReturn:
        """Start a process for the next edit whenever the one before has been taken.

        Not earlier than the present one has settled, which would wait for the processor otherwise.
        """
        while True:
            await self._settled.wait()
            self._settled.clear()
            if self._spare is None:
                self._spare = await self._warmed_up()

    def _let_go(
        self, tasks: asyncio.TaskGroup, *processes: AppProcess | None, within_s: float
    ) -> None:
        for process in filter(None, processes):
            tasks.create_task(process.stop(within_s), name="headgate-dev-stop")
        self._process = None

    async def _watch_over(self, process: AppProcess) -> None:
        """Tell when a process has ended by itself."""
        code = await process.wait()
        if process is not self._process:
            return
        self._settled.set()
        if code != notes.EXIT_BROKEN:
            text = (
                f"the app's process ended with exit code {code}; what it ran comes back after its "
                "queue's visibility timeout"
            )
            self._screen.say(Said(text=text, style="bad"))
        self._screen.say(Said(text="waiting for the next edit", style="warning"))
        self._show("waiting for the next edit")

    def _hear(self, line: str) -> None:
        if (said := self._board.hear(line)) is not None:
            self._screen.say(said)
        if self._board.state == "running":
            self._settled.set()

    def _show(self, state: str) -> None:
        self._board.state = state
        self._screen.draw()

    async def _redraw(self) -> NoReturn:
        while True:
            self._screen.draw()
            await asyncio.sleep(_REDRAW_S)


def _forget_compiled(sources: Iterable[Path]) -> None:
    """Delete the bytecode of edited files.

    Python takes it for that of its source if the source's size and its time in whole seconds are
    what they were: after two edits of one second, the second would not be seen.
    """
    for source in sources:
        # Where it can't be deleted, it could not be written either.
        with suppress(OSError):
            Path(cache_from_source(source)).unlink()


def _introduce(
    screen: Screen,
    surroundings: Surroundings,
    options: DevOptions,
    listener: socket.socket | None,
) -> None:
    """Print what another terminal needs, and keep the links in sight."""
    screen.say(Said(text="in another terminal:", style="faint"))
    for line in surroundings.lines:
        screen.say_as_it_is(f"  {line}")
    watched = ", ".join(str(path.resolve()) for path in options.watch)
    kept = f"kept in {options.state}" if options.state is not None else "lost at the end"
    screen.keep_in_sight(
        (
            ("local AWS", f"{surroundings.endpoint_url}; its state is {kept}")
            if options.endpoint_url is None
            else ("AWS", surroundings.endpoint_url),
            *((("console", _console_link(listener)),) if listener is not None else ()),
            ("watching", watched),
        )
    )


async def _require_answer(endpoint_url: str) -> None:
    """Refuse an endpoint of this machine's at which nothing listens; no edit could mend it."""
    parts = urlsplit(endpoint_url)
    host = parts.hostname or ""
    if not is_loopback(host):
        return  # it may be behind a proxy
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        raise ConfigurationError(
            f"nothing answers at {endpoint_url}: start that local AWS first, or leave --endpoint "
            "out to have one started"
        ) from error
    writer.close()


@contextmanager
def _listening(options: DevOptions) -> Iterator[socket.socket | None]:
    """Yield the socket that every process of the app serves the console on, if one is wanted."""
    if not options.console:
        yield None
        return
    with listen_nearby("127.0.0.1", CONSOLE_PORT) as listener:
        yield listener


def _console_link(listener: socket.socket) -> str:
    link, port = url_of(listener), listener.getsockname()[1]
    return link if port == CONSOLE_PORT else f"{link} (the port {CONSOLE_PORT} is taken)"


@asynccontextmanager
async def _local_aws(
    options: DevOptions, python: Path | None, stop: asyncio.Event, screen: Screen
) -> AsyncIterator[str]:
    """Yield the endpoint of a local AWS; an empty text if it was stopped while it started."""
    if options.endpoint_url is not None:
        yield options.endpoint_url
        return
    aws = LocalAws(python=python, port=PORT, state=options.state, fires_schedules=False)
    watching: asyncio.Task[str] | None = None
    ending = ""
    try:
        if await _started(aws, stop):
            watching = asyncio.create_task(_ending(aws, stop), name="headgate-dev-aws")
            yield aws.endpoint_url
        else:
            yield ""
    finally:
        if watching is not None and not watching.cancel():
            ending = watching.result()
        await asyncio.to_thread(aws.stop)
        if options.state is not None and not aws.ended_in_order and not ending:
            text = (
                "the state could not be saved in time: some or all of "
                f"{options.state} is as it was at the start"
            )
            screen.say(Said(text=text, style="bad"))
    if ending:
        lost = "its queues and jobs are gone"
        if options.state is not None:
            lost = f"some or all of {options.state} is as it was at the start"
        raise HeadgateError(
            f"headgate dev has lost its local AWS, and {lost}: start it again; {ending}"
        )


async def _ending(aws: LocalAws, stop: asyncio.Event) -> str:
    """Set ``stop`` once the local AWS has ended by itself; return how it did."""
    while True:
        await asyncio.sleep(_LOOK_S)
        if ending := aws.ending():
            stop.set()
            return ending


async def _started(aws: LocalAws, stop: asyncio.Event) -> bool:
    """Start it; return False if ``stop`` came first."""
    starting = asyncio.create_task(asyncio.to_thread(aws.start))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        # The start fails once its process is gone.
        await asyncio.to_thread(aws.stop)
        await asyncio.wait({starting})
        starting.exception()
        return False
    stopped.cancel()
    await starting
    return True


@contextmanager
def _stopping() -> Iterator[asyncio.Event]:
    """Yield an event that a signal to end sets."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in _STOPS:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in _STOPS:
            loop.remove_signal_handler(number)
