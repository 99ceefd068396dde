"""``python -m tests.browser pictures`` or ``journeys``: on the stage, in headless Chromium."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from benchmarks.environments import python_with
from tests.browser.stage import perform

HERE = Path(__file__).parent
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> int:
    """Run a driver; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser", description=__doc__)
    parser.add_argument("driver", choices=("pictures", "journeys"))
    driver = parser.parse_args().driver
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        print("this needs Chromium: apt-get install chromium", file=sys.stderr)
        return 2
    python = python_with(HERE / "driver" / "requirements.txt")
    return perform([python, str(HERE / "driver" / f"{driver}.py"), browser])


if __name__ == "__main__":
    sys.exit(main())
