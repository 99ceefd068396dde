"""`headgate demo`: a whole shop's jobs, run and checked on this machine in less than a minute."""

from __future__ import annotations

from importlib import import_module

from headgate.jobs.errors import ConfigurationError
from headgate.ops.demo.options import DemoOptions

__all__ = ["DemoOptions", "run_demo"]

_NEEDED = {
    "examples.shop.app": "the example shop: run it in a checkout of the repository",
    "ministack": "a local AWS: pip install ministack",
    "aws_lambda_powertools": "the schedules' bridge: pip install 'headgate[lambda]'",
}


def run_demo(options: DemoOptions) -> int:
    """Run the demo; returns the exit code: 0 on success, 1 if a check failed, 130 if interrupted.

    Raises:
        HeadgateError: a prerequisite is missing or failed; everything has been cleaned up.
    """
    for module, what in _NEEDED.items():
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            raise ConfigurationError(f"the demo needs {what} ({error})") from error
    from headgate.ops.demo.run import run

    return run(options)
