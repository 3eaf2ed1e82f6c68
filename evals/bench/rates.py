"""Queries a second of one client and of many.

Belongs here: the arithmetic of rates. Does not belong here: what is asked of whom (`speed`, `clients`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

CLIENTS, ROUNDS = 8, 5

Rates = dict[str, float]


def rates(ask: Callable[[int], object], count: int) -> Rates:
    """Queries a second where `ask` asks `count` queries by so many clients: medians, and the median of the ratios.

    One client and `CLIENTS` take turns, because a shared machine changes its pace.
    """

    def rate(clients: int) -> float:
        started = time.perf_counter()
        ask(clients)
        return count / (time.perf_counter() - started)

    pairs = np.array([(rate(1), rate(CLIENTS)) for _ in range(ROUNDS)])
    one, many = np.median(pairs, axis=0)
    ratio = float(np.median(pairs[:, 1] / pairs[:, 0]))
    return {"1_client": round(float(one), 1), f"{CLIENTS}_clients": round(float(many), 1), "ratio": round(ratio, 2)}
