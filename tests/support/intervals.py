"""Confidence intervals of the shares that tests print."""

from __future__ import annotations

import math


def wilson(hits: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's interval of a share; 95 % by default."""
    share, spread = hits / of, z * z / of
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / of + spread / (4 * of))
    return max(0.0, middle - half), min(1.0, middle + half)
