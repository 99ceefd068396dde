"""The test kit: an app's jobs in memory, in virtual time."""

from headgate.jobs.testing import (
    Call,
    DrainUnfinished,
    Faults,
    Harness,
    LoopClock,
    MemoryScheduler,
    MemorySqs,
    MemoryStore,
    MemoryTable,
    MemoryTopic,
    MessageState,
    StoredMessage,
    Submitted,
    VirtualClock,
)

__all__ = [
    "Call",
    "DrainUnfinished",
    "Faults",
    "Harness",
    "LoopClock",
    "MemoryScheduler",
    "MemorySqs",
    "MemoryStore",
    "MemoryTable",
    "MemoryTopic",
    "MessageState",
    "StoredMessage",
    "Submitted",
    "VirtualClock",
]
