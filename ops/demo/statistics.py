"""The one statistic that the demo needs."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], per_cent: float) -> float:
    """Return the smallest value that at least ``per_cent`` % don't exceed (the nearest rank).

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("there is no percentile of no values")
    rank = max(1, math.ceil(len(values) * per_cent / 100))
    return sorted(values)[rank - 1]
