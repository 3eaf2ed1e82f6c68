from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.indexes.indexed_chunks import PageTree
from rag_serving.retrieval.hybrid import of_page, of_parent

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


def test_nothing_has_no_surroundings() -> None:
    none, rows = np.zeros(0), np.zeros(0, np.int64)
    assert [len(each) for each in (of_page(none, rows), of_parent(none, rows, rows))] == [0, 0]


def test_a_page_is_worth_the_mean_of_what_may_be_read_of_it() -> None:
    table = pa.table({"page_id": ["a", "a", "b", "b"], "parent_id": ["", "", "a", "x"], "chunk_idx": [0, 1, 0, 2]})
    tree, scores = PageTree(table), np.array([1.0, 3.0, 0.0, 4.0], np.float32)
    rows = np.arange(4)
    assert tree.means(scores, rows, rows).tolist() == [2, 2, 2, 2]
    without_third = np.array([0, 1, 3])
    assert tree.means(scores, without_third, without_third).tolist() == [2, 2, 4]
    assert (tree.pages(rows) == tree.pages(rows)[[0, 0, 2, 2]]).all()
    assert [int(above) for above in tree.parents(rows)] == [-1, -1, int(tree.pages(rows)[0]), -1]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.floats(0, 9, width=32)), min_size=1, max_size=20))
def test_what_a_reader_may_not_see_does_not_move_the_mean_of_a_page(rows: list[tuple[int, bool, float]]) -> None:
    rows.sort(key=lambda row: row[0])
    seen = np.flatnonzero([visible for _, visible, _ in rows])
    scores = np.array([score if visible else 0 for _, visible, score in rows], np.float32)
    beside = tree_of([page for page, _, _ in rows]).means(scores, seen, seen)
    alone = tree_of([rows[row][0] for row in seen]).means(scores[seen], np.arange(len(seen)), np.arange(len(seen)))
    assert beside.tolist() == alone.tolist()


def tree_of(pages: list[int]) -> PageTree:
    names = pa.array([f"p{page}" for page in pages], pa.string())
    return PageTree(
        pa.table(
            {
                "page_id": names,
                "parent_id": pa.array([""] * len(pages), pa.string()),
                "chunk_idx": pa.array(pages, pa.int32()),
            }
        )
    )
