"""The weight of each sign: those of the package, and an installation's own confidence.

Belongs here: the two linear models, their files and the format of these.
Does not belong here: the signs themselves (`signs`), learning (`evals/training/train_answers.py`,
`evals.evaluation.calibrate`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

Signs = Mapping[str, float]

WEIGHTS = "weights.json"
VERSION = 3
TABLES = ("with_vectors", "words_alone")
_SURE = 30.0  # beyond it a logistic function is 0 or 1
_MEND = "write it again with `citelock evaluate --calibrate --write`, or leave gates.confidence_weights out"


class WeightsError(Exception):
    """A file of weights cannot be used; the message says why and how to mend it."""


@dataclass(frozen=True)
class SignWeights:
    """The weights of one table, by sign.

    Attributes:
        order: units of one question are ordered by it (pairwise logistic regression, after Joachims, "Optimizing
            Search Engines using Clickthrough Data", KDD 2002).
        confidence, bias: how likely the first of them answers (logistic regression); `score` is its place in the order.
    """

    order: Mapping[str, float]
    confidence: Mapping[str, float]
    bias: float

    def score(self, found: Signs) -> float:
        """Return the score that orders the units of one question."""
        return sum(self.order.get(name, 0.0) * value for name, value in found.items())

    def told(self, evidence: Signs) -> float:
        """Return how likely a unit with these signs, its score among them, answers: 0 to 1."""
        logit = self.bias + sum(self.confidence.get(name, 0.0) * value for name, value in evidence.items())
        return 1 / (1 + math.exp(-min(max(logit, -_SURE), _SURE)))


@dataclass(frozen=True)
class Tables:
    """The weights for when units have vectors, and for when words alone decide."""

    with_vectors: SignWeights
    words_alone: SignWeights

    def of(self, with_vectors: bool) -> SignWeights:
        return self.with_vectors if with_vectors else self.words_alone


@cache
def learnt() -> Tables:
    """Return the weights that the package carries."""
    found = json.loads(Path(__file__).with_name(WEIGHTS).read_text(encoding="utf-8"))
    return Tables(*(SignWeights(**found[table]) for table in TABLES))


def calibrated(path: Path | None, embedding: str) -> Tables:
    """Return the package's weights with the confidence of this file; without a file the package's alone.

    `embedding` names the model that similarities come from.

    Raises:
        WeightsError: the file is missing, of another version or model, or has a weight of an unknown sign.
    """
    if path is None:
        return learnt()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if (version := found["version"]) != VERSION:
            raise WeightsError(f"{path} is of version {version}, not {VERSION}; {_MEND}")
        if (of := found["embedding"]) != embedding:
            raise WeightsError(f"{path} was calibrated with {of}, not with {embedding}; {_MEND}")
        tables = [_with_confidence(learnt().of(table == TABLES[0]), found[table]) for table in TABLES]
    except OSError as error:
        raise WeightsError(f"{path} cannot be read ({error.strerror}); {_MEND}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WeightsError(f"{path} is no file of weights ({error!r}); {_MEND}") from error
    return Tables(*tables)


def _with_confidence(shipped: SignWeights, found: Mapping[str, Any]) -> SignWeights:
    weights = {name: _finite(value) for name, value in found["confidence"].items()}
    if unknown := weights.keys() - shipped.confidence.keys():
        raise ValueError(f"no sign is called {min(unknown)!r}")
    return replace(shipped, confidence=weights, bias=_finite(found["bias"]))


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no weight")
    return float(value)
