"""The gates of a candidate's publication: floors, and drops against the published generation."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from statistics import fmean
from typing import Any

from evals.evaluation.metrics import paired_p_value

KNOWN = (
    "citation_precision", "citation_recall", "sentence_precision", "answerability", "not_found_recall",
    "not_found_precision", "closest_citation_precision", "anchor_validity", "recall@10", "ndcg@10", "mrr@10", "map",
    "answer_similarity", "entailed_citation_recall", "entailed_citation_precision", "text_kept",
)  # fmt: skip
SIGNIFICANCE = 0.05
NAMED = 10

Measures = Mapping[str, Mapping[str, float]]  # by name, then by question id


class GatesError(Exception):
    """The gates cannot be used; the message names the key, and its valid values."""


@dataclass(frozen=True)
class QualityGates:
    """The thresholds for a candidate."""

    floors: Mapping[str, float] = field(default_factory=dict)
    drops: Mapping[str, float] = field(default_factory=dict)
    significance: float = SIGNIFICANCE  # a drop counts when chance makes it less often than this


@dataclass(frozen=True)
class GateVerdict:
    """The verdict of one gate; `questions` are those to blame, the worst first."""

    gate: str
    passed: bool
    detail: str
    questions: tuple[str, ...] = ()

    def payload(self) -> dict[str, Any]:
        return {**asdict(self), "questions": list(self.questions)}


def parse_gates(text: str) -> QualityGates:
    """Gates as TOML: tables `floors` and `drops` with a number from 0 to 1 per measure, and `significance`.

    Raises:
        GatesError: it is not TOML, or has a key or a value that is not allowed.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GatesError(f"not valid TOML: {error}") from None
    if unknown := sorted(content.keys() - {"floors", "drops", "significance"}):
        raise GatesError(f"unknown key {unknown[0]!r}; known are drops, floors, significance")
    return QualityGates(
        floors=_numbers(content, "floors"),
        drops=_numbers(content, "drops"),
        significance=_share("significance", content.get("significance", SIGNIFICANCE)),
    )


def _numbers(content: Mapping[str, Any], table: str) -> dict[str, float]:
    values = content.get(table, {})
    if not isinstance(values, dict):
        raise GatesError(f"{table!r} must be a table")
    for name in values:
        if name not in KNOWN:
            near = get_close_matches(name, KNOWN, n=1)
            mend = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(KNOWN)}"
            raise GatesError(f"{table}: unknown measure {name!r}; {mend}")
    return {name: _share(f"{table}.{name}", value) for name, value in values.items()}


def _share(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise GatesError(f"{name} must be a number from 0 to 1")
    return float(value)


def judge_gates(gates: QualityGates, candidate: Measures, published: Measures | None) -> list[GateVerdict]:
    """Return a verdict for every gate that has a value: floors of the candidate, drops where something is published.

    Drops are over the questions that both have: the mean fell by more than is allowed, and by more than chance makes.
    """
    verdicts = [_floor(name, minimum, candidate[name]) for name, minimum in gates.floors.items() if candidate.get(name)]
    for name, allowed in gates.drops.items():
        before, after = (published or {}).get(name, {}), candidate.get(name, {})
        if common := sorted(before.keys() & after.keys()):
            pairs = {question: (before[question], after[question]) for question in common}
            verdicts.append(_drop(name, allowed, pairs, gates.significance))
    return verdicts


def _floor(name: str, minimum: float, values: Mapping[str, float]) -> GateVerdict:
    mean = fmean(values.values())
    worst = sorted((value, question) for question, value in values.items() if value < 1)
    return _verdict(
        f"floor of {name}",
        mean >= minimum,
        f"{mean:.3f} over {len(values)} questions, at least {minimum:g} is asked for",
        [question for _, question in worst],
    )


def _drop(name: str, allowed: float, pairs: Mapping[str, tuple[float, float]], significance: float) -> GateVerdict:
    before, after = (list(values) for values in zip(*pairs.values(), strict=True))
    drop, chance = fmean(before) - fmean(after), paired_p_value(before, after)
    fallen = sorted((now - then, question) for question, (then, now) in pairs.items() if now < then)
    return _verdict(
        f"drop of {name}",
        drop <= allowed or chance >= significance,
        f"{fmean(after):.3f} after {fmean(before):.3f} over {len(pairs)} questions (p {chance:.3f}), a drop of "
        f"{allowed:g} is allowed",
        [question for _, question in fallen],
    )


def _verdict(gate: str, passed: bool, detail: str, questions: list[str]) -> GateVerdict:
    return GateVerdict(gate, passed, detail, () if passed else tuple(questions[:NAMED]))
