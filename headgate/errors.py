"""Every error that Headgate raises, as one tree."""

from headgate.jobs.errors import *  # noqa: F403 - the names in its __all__
