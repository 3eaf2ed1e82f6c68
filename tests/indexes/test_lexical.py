from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.lexical_table import lexical_table
from support.synthetic import WORDS, folder_bytes

from rag_assets.publishing.lexical_writer import build_lexical
from rag_serving.indexes.lexical import K1, B, LexicalError, LexicalIndex
from rag_serving.text.analyzer import analyze

TEXT = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
TEXTS = ["crane at the berth", "vessel at the berth", "crane crane crane", "customs seal", "the of and"]


def index_of(folder: Path, texts: list[str]) -> LexicalIndex:
    build_lexical(folder, lexical_table(texts))
    return LexicalIndex.open(folder)


def bm25(query: list[str], texts: list[str]) -> list[float]:
    """Okapi BM25 with Lucene's idf, term by term from its formula: what the index must agree with."""
    documents = [analyze(text) for text in texts]
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for document in documents:
        score, counts = 0.0, Counter(document)
        for term in query:
            n = sum(term in other for other in documents)
            idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
            score += idf * counts[term] / (counts[term] + K1 * (1 - B + B * len(document) / mean))
        scores.append(score)
    return scores


@given(st.lists(TEXT, min_size=1, max_size=12), st.data())
@settings(max_examples=examples(0.4))
def test_scores_and_order_are_those_of_the_bm25_formula(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], data: st.DataObject
) -> None:
    query = data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
    hits = index_of(tmp_path_factory.mktemp("index"), texts).search(analyze(" ".join(query)), len(texts))
    expected = bm25(analyze(" ".join(query)), texts) if any(map(analyze, texts)) else [0.0] * len(texts)
    assert {hit.row for hit in hits} == {row for row, score in enumerate(expected) if score > 0}
    assert [hit.score for hit in hits] == pytest.approx(sorted((s for s in expected if s > 0), reverse=True), rel=1e-4)


def test_who_waits_hears_how_far_it_is(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    texts = TEXTS * 240
    build_lexical(tmp_path, lexical_table(texts), progress=lambda *what: told.append(what))
    assert told == [(500, 1200), (1000, 1200), (1200, 1200)]


def test_a_masked_chunk_never_comes_back(tmp_path: Path) -> None:
    index = index_of(tmp_path, TEXTS)
    allowed = np.array([False, True, False, True, True])
    assert [hit.row for hit in index.search(["crane", "berth"], 10, allowed)] == [1]
    assert index.search(["crane"], 10, allowed) == []
    assert index.search(["crane"], 10, np.zeros(5, dtype=bool)) == []


@given(st.lists(st.tuples(TEXT, st.booleans()), min_size=1, max_size=12), st.lists(st.sampled_from(WORDS), min_size=1))
@settings(max_examples=examples(0.4))
def test_what_a_reader_may_not_see_does_not_move_its_scores(
    tmp_path_factory: pytest.TempPathFactory, documents: list[tuple[str, bool]], query: list[str]
) -> None:
    """Neither document frequencies nor the mean length: the scores are the same to the last bit."""
    texts, visible = [text for text, _ in documents], [row for row, (_, seen) in enumerate(documents) if seen]
    terms = analyze(" ".join(query))
    alone = index_of(tmp_path_factory.mktemp("alone"), [texts[row] for row in visible]).search(terms, 12)
    beside = index_of(tmp_path_factory.mktemp("beside"), texts)
    hits = beside.search(terms, 12, np.array([seen for _, seen in documents]))
    assert [(hit.row, hit.score) for hit in hits] == [(visible[hit.row], hit.score) for hit in alone]


def test_narrowing_keeps_scores(tmp_path: Path) -> None:
    index = index_of(tmp_path, TEXTS)
    everywhere = {hit.row: hit.score for hit in index.search(["crane"], 10)}
    narrowed = index.search(["crane"], 10, among=np.array([True, False, False, False, False]))
    assert [(hit.row, hit.score) for hit in narrowed] == [(0, everywhere[0])]


def test_only_chunks_with_a_term_of_the_query_are_found(tmp_path: Path) -> None:
    index = index_of(tmp_path, TEXTS)
    assert [hit.row for hit in index.search(["crane"], 100)] == [2, 0]
    assert index.search(["unheard"], 5) == index.search([], 5) == index.search(["crane"], 0) == []


def test_equal_scores_stand_in_row_order(tmp_path: Path) -> None:
    index = index_of(tmp_path, ["crane berth"] * 30)
    assert [hit.row for hit in index.search(["crane"], 7)] == list(range(7))


def test_weights_of_terms_count(tmp_path: Path) -> None:
    index = index_of(tmp_path, ["crane", "berth", "seal"])
    assert [hit.row for hit in index.search({"crane": 0.1, "berth": 0.9}, 5)] == [1, 0]


@pytest.mark.parametrize("texts", [[], ["the of"], ["", ""]])
def test_an_index_without_terms_answers_nothing(tmp_path: Path, texts: list[str]) -> None:
    index = index_of(tmp_path, texts)
    assert len(index) == len(texts)
    assert index.search(["crane"], 5) == []


def test_the_same_texts_give_the_same_bytes_under_any_hash_seed(tmp_path: Path) -> None:
    index_of(tmp_path / "here", TEXTS)
    script = (
        "import json, sys; from pathlib import Path; from rag_assets.publishing.lexical_writer import build_lexical;"
        "from support.lexical_table import lexical_table;"
        "build_lexical(Path(sys.argv[1]), lexical_table(json.loads(sys.argv[2])))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "there"), json.dumps(TEXTS)]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "99", "PYTHONPATH": paths}, check=True)
    assert folder_bytes(tmp_path / "here") == folder_bytes(tmp_path / "there")


def test_no_file_of_the_index_is_a_pickle(tmp_path: Path) -> None:
    index_of(tmp_path, TEXTS)
    assert {path.suffix for path in tmp_path.iterdir()} == {".npy", ".json"}
    for path in tmp_path.glob("*.npy"):
        np.load(path, allow_pickle=False)


@pytest.mark.parametrize(
    "name", ["counts.npy", "lengths.npy", "data.csc.index.npy", "vocab.index.json", "lexical.json"]
)
def test_a_truncated_or_missing_file_is_an_error(tmp_path: Path, name: str) -> None:
    index_of(tmp_path, TEXTS)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-8])
    with pytest.raises(LexicalError, match="not a complete lexical index"):
        LexicalIndex.open(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(LexicalError, match="not a complete lexical index"):
        LexicalIndex.open(tmp_path)


def test_an_index_of_another_analyzer_is_refused(tmp_path: Path) -> None:
    index_of(tmp_path, TEXTS)
    facts = json.loads((tmp_path / "lexical.json").read_text())
    (tmp_path / "lexical.json").write_text(json.dumps({**facts, "analyzer": 0}))
    with pytest.raises(LexicalError, match="another version"):
        LexicalIndex.open(tmp_path)


def test_rows_with_all_of_some_terms_are_found_once_each(tmp_path: Path) -> None:
    index = index_of(tmp_path, TEXTS)
    assert index.rows_with(["crane", "berth"]).tolist() == [0]
    assert index.rows_with(["berth", "berth"]).tolist() == [0, 1]
    assert index.rows_with(["berth", "unheard"]).tolist() == index.rows_with([]).tolist() == []
