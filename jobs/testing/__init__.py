"""The test kit: an app's jobs in memory, clocks that a test owns, and SQS with faults on demand."""

from jobs.testing.clock import LoopClock, VirtualClock
from jobs.testing.faults import Faults
from jobs.testing.harness import DrainUnfinished, Harness, Submitted
from jobs.testing.inspection import Call, StoredMessage
from jobs.testing.memory import MemorySqs
from jobs.testing.memory_scheduler import MemoryScheduler
from jobs.testing.memory_store import MemoryStore
from jobs.testing.memory_table import MemoryTable
from jobs.testing.memory_topic import MemoryTopic
from jobs.testing.ordering import MessageState

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
