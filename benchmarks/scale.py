"""The extent of the measurements: in full, or just enough to see that they work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The extent of the measurements."""

    rounds: int
    few_rounds: int
    """Number of rounds of measurements that take long or hardly vary."""
    jobs: int
    """Number of no-op jobs per round of the row that counts requests, and of recorded bodies.

A tenth of it for contestants that submit one by one, where latency is added."""
    most: int
    """Maximum number of jobs put into a queue for one drain."""
    drain_s: float
    """Seconds after which a drain is cut off."""
    pickups: int
    """Number of messages per round that are sent one by one."""
    low: int
    """Number of low jobs that wait while critical ones are sent."""
    steady_s: float
    """Seconds that the steady load lasts."""
    steady_jobs_per_s: int
    idle_s: float
    settle_s: float
    """Seconds for workers to start and open their polls, before idle requests are counted."""
    imports: int
    cost_jobs: int
    """Number of jobs of each measurement of CPU time."""
    growth_jobs: int
    """Number of jobs of each measurement of growth."""
    growth_queues: tuple[int, ...]
    latencies_ms: tuple[int, ...]
    trial_jobs: int
    """Number of jobs in the queue when a worker is killed or stopped."""
    kills: int
    """Number of times that Headgate's worker is killed."""
    peer_kills: int
    """Number of times that each other worker is killed."""
    stops: int
    """Number of times that each worker is stopped."""
    at_once: int
    """Number of trials side by side, each on a queue of its own."""
    long_job_s: float
    long_visibility_s: int
    long_watch_s: float
    """Seconds for which a long job is watched, from its first start."""
    soak_jobs: int
    """Number of jobs of Headgate's soak."""
    peer_soak_jobs: int
    everyone: bool
    """True if all contestants drain, False for one of each kind."""


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
    cost_jobs=4_000,
    growth_jobs=10_000,
    growth_queues=(1, 4, 16, 40, 100),
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
    cost_jobs=200,
    growth_jobs=200,
    growth_queues=(1, 4),
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
