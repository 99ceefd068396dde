"""Execution of a plan: on virtual time, with seeded randomness, and with no error unnoticed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from headgate.jobs.execution import hook_runner
from headgate.workers import parts
from headgate.workers.isolation import child_pool
from tests.simulation import children
from tests.simulation.actors import OwnedTask, owned_task
from tests.simulation.entropy import seeded
from tests.simulation.invariants import judge
from tests.simulation.ledger import Ledger
from tests.simulation.loop import Endless, Stuck, VirtualLoop
from tests.simulation.plan import Plan
from tests.simulation.world import World
from tests.support.loggers import restored


def live(plan: Plan) -> Ledger:
    """Simulate a plan's life; return its ledger with all violations."""
    ledger = Ledger()
    with ExitStack() as stack:
        stack.enter_context(seeded(plan.seed))
        stack.enter_context(_children_simulated())
        stack.enter_context(_log_heard(ledger))
        OwnedTask.restart()
        loop = VirtualLoop()
        loop.set_task_factory(owned_task)  # type: ignore[arg-type]  # typeshed wants a generic one
        loop.set_exception_handler(lambda _loop, context: _unheard(ledger, context))
        ledger.begin(loop.time)
        runner = stack.enter_context(asyncio.Runner(loop_factory=lambda: loop))
        try:
            runner.run(_lived(plan, ledger, loop))
        except (Endless, Stuck) as error:
            ledger.fault(type(error).__name__.lower(), str(error))
    return ledger


async def _lived(plan: Plan, ledger: Ledger, loop: VirtualLoop) -> None:
    world = World(plan, ledger, loop)
    await world.live()
    judge(world)


@contextmanager
def _children_simulated() -> Iterator[None]:
    with (
        mock.patch.object(child_pool, "spawned", children.spawned),
        mock.patch.object(parts, "app_path", side_effect=lambda app: app),
        mock.patch.object(hook_runner, "_Threads", HookThreads),
    ):
        yield


class HookThreads:
    """The interface of hooks' threads, implemented in the loop."""

    def __init__(self, _most: int) -> None:
        """Start nothing."""

    async def call(
        self, function: Callable[[], Any], _line: object
    ) -> tuple[Any, BaseException | None]:
        """Run a function; return its result or raise its error."""
        try:
            return await asyncio.get_running_loop().run_in_executor(None, function), None
        except Exception as error:  # noqa: BLE001 - the users' code, as in the real one
            return None, error

    def close(self) -> None:
        """End nothing."""


class _Heard(logging.Handler):
    """Collects faults of the code under test that it only logs."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.ERROR)
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and (error := record.exc_info[1]) is not None:
            said = f"{record.getMessage()}: {type(error).__name__}: {error}"
            self._ledger.fault("fault-logged", said)


@contextmanager
def _log_heard(ledger: Ledger) -> Iterator[None]:
    with restored() as log:
        log.addHandler(_Heard(ledger))
        log.propagate = False
        log.setLevel(logging.ERROR)
        yield


def _unheard(ledger: Ledger, context: dict[str, Any]) -> None:
    error = context.get("exception")
    ledger.fault("error-unheard", f"{context.get('message')}: {type(error).__name__}: {error}")
