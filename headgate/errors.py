"""Every error that Headgate raises, as one tree."""

from headgate.jobs.errors import *  # noqa: F403 - what it lists in __all__
