from __future__ import annotations

import numpy as np
import pytest

from rag_serving.surroundings import of_neighbours, of_page, of_parent

SCORES = np.array([2.0, -1.0, 0.5, 0.0])
PAGES = np.array([7, 7, 3, 3])


def test_passages_share_what_their_page_is_worth() -> None:
    worth = of_page(SCORES, PAGES)
    assert worth[0] == worth[1] > worth[2] == worth[3]
    assert worth.mean() == pytest.approx(0)


def test_one_page_lifts_nothing() -> None:
    assert of_page(SCORES, np.zeros(4, np.int64)).tolist() == [0, 0, 0, 0]


def test_a_page_has_a_share_in_the_best_passage_of_the_page_above() -> None:
    parents = np.array([-1, -1, 7, 7])
    assert of_parent(SCORES, PAGES, parents).tolist() == [0, 0, 2, 2]


def test_a_page_above_that_is_no_candidate_or_a_poor_one_is_worth_nothing() -> None:
    assert of_parent(SCORES, PAGES, np.array([9, 9, 9, 9])).tolist() == [0, 0, 0, 0]
    assert of_parent(-SCORES - 1, PAGES, np.array([-1, -1, 7, 7])).tolist() == [0, 0, 0, 0]


def test_only_the_passages_beside_one_in_its_page_are_its_neighbours() -> None:
    assert of_neighbours(SCORES, PAGES, np.array([10, 11, 12, 14])).tolist() == [0, 2, 0, 0]
    assert of_neighbours(SCORES, np.array([7, 7, 7, 3]), np.array([10, 11, 12, 13])).tolist() == [0, 2.5, 0, 0]


def test_nothing_has_no_surroundings() -> None:
    none, rows = np.zeros(0), np.zeros(0, np.int64)
    assert [
        len(each) for each in (of_page(none, rows), of_parent(none, rows, rows), of_neighbours(none, rows, rows))
    ] == [
        0,
        0,
        0,
    ]
