"""The options of `headgate dev`."""

from __future__ import annotations

from pathlib import Path

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class DevOptions:
    """The options of `headgate dev`."""

    app: str
    """The app's path, such as ``shop.app:app``."""
    endpoint_url: str | None = None
    """A local AWS that runs already; None starts one."""
    state: Path | None = None
    """The folder in which the local AWS keeps its state between two runs; None keeps none."""
    watch: tuple[Path, ...] = (Path(),)
    """The folders whose Python files are watched."""
    console: bool = True
    """True serves the web console."""

    def __post_init__(self) -> None:
        if self.endpoint_url is not None and self.state is not None:
            raise ConfigurationError(
                "--state is the folder of the local AWS that headgate dev starts; that at "
                "--endpoint keeps its own state: leave one of the two out"
            )
