"""The mapping of calls to the plan's faults."""

from __future__ import annotations

from tests.simulation.actors import Actor
from tests.simulation.entropy import stream
from tests.simulation.ledger import Ledger
from tests.simulation.plan import FaultPlan, Plan

HANG_S = 60.0
"""Seconds that an AWS client waits for an answer that does not come."""


class Faults:
    """Decides which fault each call meets."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self._plans = plan.faults
        self._rng = stream(plan.seed, "faults")
        self._latency = stream(plan.seed, "latency")
        self._ledger = ledger
        self.over = not plan.faults
        """True once no more faults occur."""

    def latency_s(self) -> float:
        """Return a request's latency."""
        return 0.002 + 0.02 * self._latency.random()

    def meet(self, actor: Actor, service: str, action: str, queue: str | None) -> FaultPlan | None:
        """Return the fault of one call, or None."""
        if self.over:
            return None
        now = self._ledger.now
        for fault in self._plans:
            if (
                fault.service == service
                and fault.start_s <= now < fault.start_s + fault.lasts_s
                and fault.action in (None, action)
                and fault.actor in (None, actor.name.partition(".")[0])
                and (fault.queue is None or fault.queue == queue)
                and self._rng.random() < fault.part
            ):
                self._ledger.counts[f"fault:{service}:{fault.mode}:{action}"] += 1
                self._ledger.log("fault", actor.name, service, fault.mode, action, queue or "")
                self.trouble(actor)
                actor.troubles.append((now, service))
                return fault
        return None

    def trouble(self, actor: Actor) -> None:
        """Note that a call of an actor may have no answer for as long as one can hang from now."""
        actor.trouble_until = max(actor.trouble_until, self._ledger.now + HANG_S)

    def undeletes(self, actor: Actor, queue: str) -> bool:
        """True if SQS only says that it deletes what Lambda asks it to delete for an actor."""
        if all(fault.mode != "undelete" for fault in self._plans):
            return False
        fault = self.meet(actor, "sqs", "delete", queue)
        return fault is not None and fault.mode == "undelete"

    def was_troubled(self, service: str, since: float, until: float) -> bool:
        """True if calls of a service may have failed within a time."""
        return any(
            fault.service == service
            and fault.start_s <= until
            and fault.start_s + fault.lasts_s + HANG_S >= since
            for fault in self._plans
        )

    def were_gone(self, actor: Actor, since: float, until: float) -> bool:
        """True if the actor's queues were missing throughout that time."""
        return any(
            fault.service == "sqs"
            and fault.mode == "gone"
            and fault.actor in (None, actor.name.partition(".")[0])
            and fault.start_s <= since
            and until <= fault.start_s + fault.lasts_s
            for fault in self._plans
        )

    def some(self, count: int) -> list[int]:
        """Return some of ``count`` indexes, at least one."""
        return sorted(self._rng.sample(range(count), self._rng.randint(1, count)))

    def uniform(self, low: float, high: float) -> float:
        return self._rng.uniform(low, high)

    def chance(self) -> bool:
        return self._rng.random() < 0.5
