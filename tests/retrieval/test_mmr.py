from __future__ import annotations

import numpy as np
import pytest

from rag_serving.retrieval.hybrid import maximal_marginal_relevance

VECTORS = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)


def test_a_repetition_waits_behind_a_less_relevant_novelty() -> None:
    assert maximal_marginal_relevance([1.0, 0.9, 0.5], VECTORS, 3, balance=0.5) == [0, 2, 1]


def test_relevance_alone_keeps_the_order() -> None:
    assert maximal_marginal_relevance([1.0, 0.9, 0.5], VECTORS, 3, balance=1.0) == [0, 1, 2]


def test_no_more_than_asked_for_or_there() -> None:
    assert len(maximal_marginal_relevance([1.0, 0.9, 0.5], VECTORS, 2)) == 2
    assert len(maximal_marginal_relevance([1.0, 0.9, 0.5], VECTORS, 9)) == 3
    assert maximal_marginal_relevance([], np.zeros((0, 2), np.float32), 3) == []


def test_scores_and_vectors_must_fit() -> None:
    with pytest.raises(ValueError, match="2 relevance scores do not fit 3 vectors"):
        maximal_marginal_relevance([1.0, 0.9], VECTORS, 3)
