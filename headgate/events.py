"""Everything that happens to jobs, as typed events."""

from headgate.jobs.core.events import *  # noqa: F403 - the names in its __all__
