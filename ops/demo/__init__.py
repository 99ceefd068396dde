"""`headgate demo`: a whole shop's jobs, run and checked on this machine in less than a minute."""

from __future__ import annotations

from importlib import import_module

from headgate.jobs.errors import ConfigurationError
from headgate.ops.demo.options import DemoOptions

__all__ = ["DemoOptions", "run_demo"]

_NEEDED = {
    "examples.shop.app": "the example shop, which is in no installation: run it in a checkout of "
    "Headgate's repository",
    "ministack": "a local AWS: pip install ministack",
    "aws_lambda_powertools": "the schedules' bridge: pip install 'headgate[lambda]'",
}


def run_demo(options: DemoOptions) -> int:
    """Run the demo; returns the exit code: 0 on success, 1 if a check failed, 130 if interrupted.

    Raises:
        ConfigurationError: something that it needs is missing; it names all of that.
        HeadgateError: a prerequisite failed; everything has been cleaned up.
    """
    if missing := [what for module, what in _NEEDED.items() if not _is_there(module)]:
        raise ConfigurationError(f"the demo needs {'; and '.join(missing)}")
    from headgate.ops.demo.run import run

    return run(options)


def _is_there(module: str) -> bool:
    """Return True if a module can be imported; what it imports itself has to be there."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        return False
    return True
