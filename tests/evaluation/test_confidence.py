"""Confidence is learnt from a gold set's own answers, and stays the package's where they say too little."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evals.evaluation.calibrate import CalibrationExample, learn
from rag_serving.answering.selection.signs import SignWeights, Tables, learnt

NAMES = learnt().with_vectors.confidence.keys() - {"score"}


def evidence(random: np.random.Generator, **known: float) -> dict[str, float]:
    found = {name: float(random.random()) for name in NAMES} | known
    return {**found, "score": learnt().with_vectors.score(found)}


def answers(count: int, parts: int = 8, tells: str | None = None, seed: int = 0) -> list[CalibrationExample]:
    """Answers that are right where one feature is high; without such a feature, where a coin says so."""
    random = np.random.default_rng(seed)
    seen = [evidence(random) for _ in range(count)]
    right = [each[tells] > 0.5 if tells else bool(random.random() < 0.5) for each in seen]
    return [
        CalibrationExample(each, is_right, f"part {n % parts}")
        for n, (each, is_right) in enumerate(zip(seen, right, strict=True))
    ]


def shares_right(seen: list[CalibrationExample], tables: Tables) -> float:
    told = [tables.with_vectors.told(each.evidence) > 0.5 for each in seen]
    return float(np.mean([each.is_right == is_told for each, is_told in zip(seen, told, strict=True)]))


def distance(one: SignWeights, other: SignWeights) -> float:
    return float(np.linalg.norm([one.confidence[name] - other.confidence[name] for name in one.confidence]))


def test_what_parts_right_from_wrong_here_is_learnt() -> None:
    found = learn(answers(600, tells="misses_kind"))
    unseen = answers(400, tells="misses_kind", seed=1)
    assert shares_right(unseen, found.tables) > 0.9 > shares_right(unseen, learnt()) + 0.2
    assert found.tables.words_alone.confidence["misses_kind"] > 0


def test_the_more_is_seen_the_more_is_learnt() -> None:
    few, many = (learn(answers(count, tells="misses_kind")).tables.with_vectors for count in (60, 600))
    assert distance(few, learnt().with_vectors) < distance(many, learnt().with_vectors)


def test_answers_that_bear_the_weights_out_leave_them_nearly_alone() -> None:
    random = np.random.default_rng(0)
    told = learnt().with_vectors.told
    borne_out = [replace(each, is_right=bool(random.random() < told(each.evidence))) for each in answers(600)]
    kept, changed = learn(borne_out), learn(answers(600, tells="misses_kind"))
    moved = [distance(each.tables.with_vectors, learnt().with_vectors) for each in (kept, changed)]
    assert 3 * moved[0] < moved[1]


@pytest.mark.parametrize(
    "seen",
    [answers(40, tells="covered"), answers(200, parts=3), [replace(each, is_right=True) for each in answers(200)], []],
    ids=["few answers", "few parts", "none wrong", "none"],
)
def test_too_little_teaches_nothing(seen: list[CalibrationExample]) -> None:
    found = learn(seen)
    assert (found.tables, found.strength) == (learnt(), None)
    assert found.unseen == tuple(learnt().with_vectors.told(each.evidence) for each in seen)


def test_an_answer_is_told_by_weights_that_did_not_see_its_part() -> None:
    """Of the parts of a fold only wrong answers are known, and nothing else tells them apart."""
    seen = [replace(each, is_right=each.part not in ("part 0", "part 5")) for each in answers(400)]
    found = learn(seen)
    unseen = [one for one, each in zip(found.unseen, seen, strict=True) if not each.is_right]
    told = [found.tables.with_vectors.told(each.evidence) for each in seen if not each.is_right]
    assert np.mean(unseen) > np.mean(told) + 0.1


def test_the_order_of_sentences_stays_the_packages() -> None:
    found = learn(answers(300, tells="misses_kind")).tables
    assert found.with_vectors.order == learnt().with_vectors.order
    assert found.words_alone.order == learnt().words_alone.order
