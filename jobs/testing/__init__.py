"""Test kit: an app's jobs in memory, clocks under a test's control, SQS with faults on demand."""

from headgate.jobs.execution.outcome import Deferred, Discarded, Done, Failed, Outcome
from headgate.jobs.testing.backend import MemoryBackend
from headgate.jobs.testing.clock import LoopClock, VirtualClock
from headgate.jobs.testing.harness import Harness
from headgate.jobs.testing.inspection import Call, StoredMessage, Submitted
from headgate.jobs.testing.memory.faults import Faults
from headgate.jobs.testing.memory.keys import MemoryKeys
from headgate.jobs.testing.memory.metrics import MemoryMetrics
from headgate.jobs.testing.memory.ordering import MessageState
from headgate.jobs.testing.memory.scheduler import MemoryScheduler
from headgate.jobs.testing.memory.secrets import MemorySecrets
from headgate.jobs.testing.memory.sqs import MemorySqs
from headgate.jobs.testing.memory.store import MemoryStore
from headgate.jobs.testing.memory.table import MemoryTable
from headgate.jobs.testing.memory.topic import MemoryTopic
from headgate.jobs.testing.next_message import DrainUnfinished

__all__ = [
    "Call",
    "Deferred",
    "Discarded",
    "Done",
    "DrainUnfinished",
    "Failed",
    "Faults",
    "Harness",
    "LoopClock",
    "MemoryBackend",
    "MemoryKeys",
    "MemoryMetrics",
    "MemoryScheduler",
    "MemorySecrets",
    "MemorySqs",
    "MemoryStore",
    "MemoryTable",
    "MemoryTopic",
    "MessageState",
    "Outcome",
    "StoredMessage",
    "Submitted",
    "VirtualClock",
]
