"""Every error that Headgate raises, as one tree.

HeadgateError
├── ConfigurationError              the app, its command line or its environment is wrong
│   ├── AppFaulty                   `headgate check` finds errors in the app
│   ├── AppImportError              "module:app" doesn't lead to an App
│   ├── DuplicateJobType            two types of one name
│   ├── HandlerMissing              a worker would receive a type that it can't run
│   ├── LibraryMissing              a library of an extra is not installed; an ImportError, too
│   └── SettingsInvalid             a setting is unknown or out of range
├── SubmissionError                 a job was refused before it was sent
│   ├── PayloadInvalid
│   ├── PayloadTooLarge
│   ├── DelayInvalid
│   ├── OptionInvalid
│   ├── CostInvalid                 it costs more than a rate limit has
│   ├── UnknownJobType
│   └── UnknownQueue                no such queue, or not with that priority
├── PartlySubmitted                 SQS did not take some of a batch
├── ScheduleError                   a schedule can't be what was asked for
│   ├── ScheduleExists
│   ├── ScheduleMissing
│   └── ScheduleDeclared            it is declared in code, and removed there
├── ReplayError                     a replay of dead letters can't do what was asked for
│   ├── ReplayMissing
│   ├── ReplayRunning               another process carries it out
│   └── ReplayOver
├── RerunError                      a job can't be run again
│   ├── JobNotEnded
│   └── PayloadUnknown              no message with its payload is left, and none was given
├── MessageError                    a received message can't become a job
│   ├── MessageUnreadable
│   ├── MessageTypeUnknown
│   ├── MessageQueueWrong           its type doesn't run from the queue it is in
│   ├── MessageSchemaNewer
│   ├── MessageUnsigned             it has no signature, and the app's messages are signed
│   ├── SignatureInvalid            it was altered, moved, or signed by somebody else
│   ├── PayloadLost             the object that holds its payload is gone or damaged
│   ├── PayloadUnopenable       it is sealed: damaged, another job's, or of an unknown key
│   └── PayloadNotSealed        Encryption(required=True) demands it
├── TransportError                  AWS could not be reached, or refused
│   ├── AuditFailed                 nothing was done, since it could not be entered into the audit
│   ├── CredentialsMissing
│   │   └── CredentialsNotConfigured    no source of credentials is configured
│   ├── RegionMissing
│   ├── AccessDenied
│   ├── QueueMissing
│   ├── QueuesMissing               of all that a worker receives from
│   ├── TableMissing
│   ├── ItemRefused                 the table can't hold what was to be written
│   ├── ItemUnreadable              Headgate has not written an item of the table
│   ├── ScheduleGroupMissing
│   ├── BucketMissing
│   ├── SecretMissing
│   ├── Throttled
│   ├── ServiceUnavailable
│   └── SpoolError                  the spool's file can't be used, or stored no job
│       ├── SpoolCorrupt
│       ├── SpoolFull
│       └── SpoolNewer
├── InlineFailed                    a job that ran in place during an outage failed
├── ResultNotKept                   a handler's return value can't be recorded
├── ResultNotSerializable           a handler returned what JSON can't hold
├── ResultError                     a job's result is not available
│   ├── JobDead
│   ├── JobDiscarded
│   ├── JobDropped
│   ├── JobCancelled
│   ├── ResultTimeout               it has not finished yet
│   ├── JobTypeWrong                its id is that of a job of another type
│   ├── ResultInvalid               the stored result doesn't fit the return type
│   └── RecordsOff                  no records with the answer are kept
├── JobTimeout                      an attempt ran past its timeout
├── ChildFailed                     a handler raised in a process of its own
└── ChildDied                       that process ended with the handler in it

Stopped                             raised by `ctx.raise_if_cancelled`; not an `Exception`
"""

from headgate.jobs.errors.attempts import ChildDied, ChildFailed, JobTimeout, Stopped
from headgate.jobs.errors.configuration import (
    AppFaulty,
    AppImportError,
    ConfigurationError,
    DuplicateJobType,
    Fault,
    HandlerMissing,
    LibraryMissing,
    SettingsInvalid,
)
from headgate.jobs.errors.messages import (
    MessageError,
    MessageQueueWrong,
    MessageSchemaNewer,
    MessageTypeUnknown,
    MessageUnreadable,
    MessageUnsigned,
    PayloadLost,
    PayloadNotSealed,
    PayloadUnopenable,
    SignatureInvalid,
)
from headgate.jobs.errors.replays import (
    JobNotEnded,
    PayloadUnknown,
    ReplayError,
    ReplayMissing,
    ReplayOver,
    ReplayRunning,
    RerunError,
)
from headgate.jobs.errors.results import (
    JobCancelled,
    JobDead,
    JobDiscarded,
    JobDropped,
    JobTypeWrong,
    RecordsOff,
    ResultError,
    ResultInvalid,
    ResultNotKept,
    ResultNotSerializable,
    ResultTimeout,
)
from headgate.jobs.errors.root import HeadgateError
from headgate.jobs.errors.root import did_you_mean as did_you_mean
from headgate.jobs.errors.submission import (
    CostInvalid,
    DelayInvalid,
    InlineFailed,
    OptionInvalid,
    PartlySubmitted,
    PayloadInvalid,
    PayloadTooLarge,
    Refusal,
    ScheduleDeclared,
    ScheduleError,
    ScheduleExists,
    ScheduleMissing,
    SubmissionError,
    UnknownJobType,
    UnknownQueue,
)
from headgate.jobs.errors.transport import (
    AccessDenied,
    AuditFailed,
    BucketMissing,
    CredentialsMissing,
    CredentialsNotConfigured,
    ItemRefused,
    ItemUnreadable,
    QueueMissing,
    QueuesMissing,
    RegionMissing,
    ScheduleGroupMissing,
    SecretMissing,
    ServiceUnavailable,
    SpoolCorrupt,
    SpoolError,
    SpoolFull,
    SpoolNewer,
    TableMissing,
    Throttled,
    TransportError,
)

__all__ = [
    "AccessDenied",
    "AppFaulty",
    "AppImportError",
    "AuditFailed",
    "BucketMissing",
    "ChildDied",
    "ChildFailed",
    "ConfigurationError",
    "CostInvalid",
    "CredentialsMissing",
    "CredentialsNotConfigured",
    "DelayInvalid",
    "DuplicateJobType",
    "Fault",
    "HandlerMissing",
    "HeadgateError",
    "InlineFailed",
    "ItemRefused",
    "ItemUnreadable",
    "JobCancelled",
    "JobDead",
    "JobDiscarded",
    "JobDropped",
    "JobNotEnded",
    "JobTimeout",
    "JobTypeWrong",
    "LibraryMissing",
    "MessageError",
    "MessageQueueWrong",
    "MessageSchemaNewer",
    "MessageTypeUnknown",
    "MessageUnreadable",
    "MessageUnsigned",
    "OptionInvalid",
    "PartlySubmitted",
    "PayloadInvalid",
    "PayloadLost",
    "PayloadNotSealed",
    "PayloadTooLarge",
    "PayloadUnknown",
    "PayloadUnopenable",
    "QueueMissing",
    "QueuesMissing",
    "RecordsOff",
    "Refusal",
    "RegionMissing",
    "ReplayError",
    "ReplayMissing",
    "ReplayOver",
    "ReplayRunning",
    "RerunError",
    "ResultError",
    "ResultInvalid",
    "ResultNotKept",
    "ResultNotSerializable",
    "ResultTimeout",
    "ScheduleDeclared",
    "ScheduleError",
    "ScheduleExists",
    "ScheduleGroupMissing",
    "ScheduleMissing",
    "SecretMissing",
    "ServiceUnavailable",
    "SettingsInvalid",
    "SignatureInvalid",
    "SpoolCorrupt",
    "SpoolError",
    "SpoolFull",
    "SpoolNewer",
    "Stopped",
    "SubmissionError",
    "TableMissing",
    "Throttled",
    "TransportError",
    "UnknownJobType",
    "UnknownQueue",
]
