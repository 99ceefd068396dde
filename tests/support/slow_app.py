"""An app whose import never ends, and which reports that it has begun."""

from __future__ import annotations

import os
import sys
import time

sys.stderr.write(f"importing in process {os.getpid()}\n")
time.sleep(3600)
