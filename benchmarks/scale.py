"""How much is measured: in full, or just enough to see that it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured."""

    rounds: int
    few_rounds: int
    """Of what takes long or hardly varies."""
    jobs: int
    """No-op jobs of the row that counts requests, a round; as many bodies are recorded. A tenth for
    those who submit one by one, where latency is added."""
    most: int
    """Jobs put into a queue for one drain, at most."""
    drain_s: float
    """A drain is cut off after so long."""
    pickups: int
    """Messages sent one by one, a round."""
    low: int
    """Low jobs that wait while critical ones are sent."""
    steady_s: float
    """How long the steady load lasts."""
    steady_jobs_per_s: int
    idle_s: float
    settle_s: float
    """For workers to start and open their polls, before idle requests are counted."""
    imports: int
    latencies_ms: tuple[int, ...]
    trial_jobs: int
    """Jobs in the queue when a worker is killed, or stopped."""
    kills: int
    """How often Headgate's worker is killed."""
    peer_kills: int
    """How often each other one is."""
    stops: int
    """How often each worker is stopped."""
    at_once: int
    """Trials side by side, each on a queue of its own."""
    long_job_s: float
    long_visibility_s: int
    long_watch_s: float
    """How long a long job is watched from its first start on."""
    soak_jobs: int
    """Headgate's."""
    peer_soak_jobs: int
    everyone: bool
    """Whether all contestants drain, or one of each kind."""


FULL = Scale(
    rounds=5,
    few_rounds=3,
    jobs=10_000,
    most=12_000,
    drain_s=3,
    pickups=100,
    low=10_000,
    steady_s=60,
    steady_jobs_per_s=1000,
    idle_s=60,
    settle_s=10,
    imports=10,
    latencies_ms=(0, 10),
    trial_jobs=1_000,
    kills=100,
    peer_kills=5,
    stops=4,
    at_once=4,
    long_job_s=10,
    long_visibility_s=3,
    long_watch_s=35,
    soak_jobs=100_000,
    peer_soak_jobs=10_000,
    everyone=True,
)
QUICK = Scale(
    rounds=1,
    few_rounds=1,
    jobs=200,
    most=2_000,
    drain_s=1,
    pickups=10,
    low=500,
    steady_s=3,
    steady_jobs_per_s=300,
    idle_s=20,
    settle_s=3,
    imports=1,
    latencies_ms=(0, 10),
    trial_jobs=500,
    kills=2,
    peer_kills=1,
    stops=1,
    at_once=2,
    long_job_s=4,
    long_visibility_s=2,
    long_watch_s=10,
    soak_jobs=3_000,
    peer_soak_jobs=500,
    everyone=False,
)
