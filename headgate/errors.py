"""Every error that Headgate raises, as one tree, and the signals that handlers raise."""

from headgate.jobs.errors import *  # noqa: F403 - the names in its __all__
from headgate.jobs.retry.signals import *  # noqa: F403 - likewise
