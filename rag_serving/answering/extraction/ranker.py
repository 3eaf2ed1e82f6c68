"""How much each sign of evidence counts: the weights that the package carries, and an installation's own confidence.

Belongs here: the three linear models, the files they are kept in, what such a file must say.
Does not belong here: the signs themselves (`features`), learning (`evals/training/train_answers.py`,
`rag_assets.evaluation.confidence`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

Features = Mapping[str, float]

WEIGHTS = "answer_weights.json"
VERSION = 2
TABLES = ("with_vectors", "words_alone")
CLEARLY_AHEAD = 1.5
"""How much better, by the section model, a passage is that is hardly ever the wrong one: 185 of 189 that were told were
right, 22 of 36 others."""
_SURE = 30.0  # beyond it a logistic function is 0 or 1
_MEND = "write it again with `citelock evaluate --calibrate --write`, or leave gates.confidence_weights out"


class WeightsError(Exception):
    """A file of weights cannot be used; the message says why and how to mend it."""


@dataclass(frozen=True)
class FeatureWeights:
    """The weights of one table, by feature."""

    rank: Mapping[str, float]
    section: Mapping[str, float]
    confidence: Mapping[str, float]
    bias: float

    def score(self, found: Features) -> float:
        """Return what sentences of one question are ordered by."""
        return sum(self.rank.get(name, 0.0) * value for name, value in found.items())

    def section_score(self, found: Features) -> float:
        """Return what passages of one question are ordered by."""
        return sum(self.section.get(name, 0.0) * value for name, value in found.items())

    def told(self, evidence: Features) -> float:
        """Return how likely the sentence with these features, its score among them, answers, 0 to 1: half as likely
        where another passage is as good.
        """
        logit = self.bias + sum(self.confidence.get(name, 0.0) * value for name, value in evidence.items())
        return clearness(evidence) / (1 + math.exp(-min(max(logit, -_SURE), _SURE)))


def clearness(evidence: Features) -> float:
    """Return how clearly the best passage is ahead of the next: ½ where both are equal, 1 from `CLEARLY_AHEAD` on."""
    return 0.5 + 0.5 * min(evidence.get("section_ahead", CLEARLY_AHEAD) / CLEARLY_AHEAD, 1.0)


@dataclass(frozen=True)
class Tables:
    """The weights for when sentences have vectors, and for when words alone decide."""

    with_vectors: FeatureWeights
    words_alone: FeatureWeights

    def of(self, with_vectors: bool) -> FeatureWeights:
        return self.with_vectors if with_vectors else self.words_alone


@cache
def learnt() -> Tables:
    """Return the weights that the package carries."""
    found = json.loads(Path(__file__).with_name(WEIGHTS).read_text(encoding="utf-8"))
    return Tables(*(FeatureWeights(**found[table]) for table in TABLES))


def calibrated(path: Path | None, embedding: str) -> Tables:
    """Return the package's weights with the confidence of this file; without a file they alone.

    `embedding` names the model that similarities come from.

    Raises:
        WeightsError: the file is missing, of another version or model, or weighs what is no evidence.
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


def _with_confidence(shipped: FeatureWeights, found: Mapping[str, Any]) -> FeatureWeights:
    weights = {name: _finite(value) for name, value in found["confidence"].items()}
    if unknown := weights.keys() - shipped.confidence.keys():
        raise ValueError(f"no evidence is called {min(unknown)!r}")
    return replace(shipped, confidence=weights, bias=_finite(found["bias"]))


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no weight")
    return float(value)
