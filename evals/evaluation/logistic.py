"""Logistic regression with a ridge around given weights.

Belongs here: fitting, the loss, the function. Does not belong here: what is learnt by it (`confidence`, the training
of the package's weights).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

_LEAST_STEP = 1e-4
_MOST_STEPS = 50
_SURE = 30.0  # beyond it a logistic function is 0 or 1


def fit(x: Matrix, y: Matrix, penalty: Matrix, prior: Matrix) -> Matrix:
    """Return the weights [d] of the columns of x [n, d] that tell y [n], 0 or 1; `penalty` [d] holds each near `prior`
    [d].

    Newton's method with halved steps on the log-likelihood less ½ Σ penalty (w - prior)² (Hastie, Tibshirani and
    Friedman, "The Elements of Statistical Learning", 4.4).
    """

    def cost(w: Matrix) -> float:
        return float(loss(x @ w, y) * len(y) + 0.5 * penalty @ (w - prior) ** 2)

    w, now = prior.copy(), cost(prior)
    for _ in range(_MOST_STEPS):
        p = logistic(x @ w)
        gradient = x.T @ (p - y) + penalty * (w - prior)
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + np.diag(penalty), gradient)
        while (then := cost(w - step)) > now and np.abs(step).max() > _LEAST_STEP:
            step = step / 2
        if then >= now:
            break
        w, now = w - step, then
    return w


def loss(logits: Matrix, y: Matrix) -> float:
    """Return the mean negative log-likelihood."""
    return float(np.mean(np.logaddexp(0.0, logits) - y * logits))


def logistic(logits: Matrix) -> Matrix:
    """1 / (1 + e^-x) of each."""
    found: Matrix = 1 / (1 + np.exp(-np.clip(logits, -_SURE, _SURE)))
    return found
