"""Everything that happens to jobs, as typed events."""

from headgate.jobs.core.events import *  # noqa: F403 - what it lists in __all__
