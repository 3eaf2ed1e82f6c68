"""Indexes that are counted part by part are, to the bit, those that are made in one go."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.lexical_table import lexical_table
from support.synthetic import MODEL, TENANT, chunk_table, clustered_vectors, config_for, folder_bytes

from rag_assets.publishing import lexical_writer, posting_lists
from rag_assets.publishing.build import build_generation
from rag_assets.publishing.lexical_writer import build_lexical, write_keyword_index
from rag_serving.artifacts.columns import values_digest
from rag_serving.artifacts.keyword_tables import KEYWORD_ROWS, KEYWORD_WORDS
from rag_serving.artifacts.store import Store, map_table
from rag_serving.indexes.keyword_index import ROWS_FILE, WORDS_FILE
from rag_serving.indexes.lexical import K1, METHOD, B
from rag_serving.text.analyzer import tokens_of, words_of
from rag_serving.text.keyword_words import tokens_in, words_in, words_of_token
from rag_serving.text.stemming import terms_in

_PIECES = [
    "The",
    "crane's",
    "Anträge",
    "--flag",
    "a.b_c",
    "C++",
    "C#",
    "x#y",
    "KIP-500",
    "v1.2.3",
    "港口",
    "I\u0307stanbul",
]
_PIECES += [
    "\u00a0",
    "\u0301",
    "´",
    "ΟΔΟΣ",
    "don't",
    "’",
    "’s",
    "\x1c",
    "\x85",
    "\u200b",
    "\u3000",
    "ﬁne",
    "-",
    "#",
    "_",
]
TEXT = st.one_of(st.text(max_size=40), st.lists(st.sampled_from([*_PIECES, " ", "\n"]), max_size=12).map("".join))
LANGUAGE = st.sampled_from([None, "de", "en", "tr"])


@given(TEXT)
@settings(max_examples=examples(2.0))
def test_the_words_of_a_text_are_those_between_its_spaces(text: str) -> None:
    assert [word for token in tokens_of(text) for word in words_of(token)] == words_of(text)
    assert [word for token in tokens_in(text) for word in words_of_token(token)] == words_in(text)


@given(st.lists(st.tuples(TEXT, LANGUAGE), max_size=9), st.integers(1, 4))
@settings(max_examples=examples(0.5))
def test_parts_of_any_size_give_what_bm25s_gives_for_all_texts(
    tmp_path_factory: pytest.TempPathFactory, documents: list[tuple[str, str | None]], part: int
) -> None:
    texts, languages = [text for text, _ in documents], [language for _, language in documents]
    folder = tmp_path_factory.mktemp("index")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexical_writer, "PART", part)
        patch.setattr(posting_lists, "MOST", part)
        build_lexical(folder / "parts", lexical_table(texts, languages))
    build_lexical(folder / "whole", lexical_table(texts, languages))
    assert folder_bytes(folder / "parts") == folder_bytes(folder / "whole")
    found = [terms_in(*document) for document in documents]
    for name, expected in bm25s_arrays(found).items():
        stored = np.load(folder / "parts" / name)
        assert (stored.dtype, stored.tobytes()) == (expected.dtype, expected.tobytes()), name


def bm25s_arrays(documents: list[list[str]]) -> dict[str, np.ndarray[Any, Any]]:
    """What bm25s computes, and the counts and lengths beside it."""
    import bm25s

    vocabulary = {term: number for number, term in enumerate(sorted(set().union(*documents)))}
    lengths = np.array([*map(len, documents)], np.int32)
    if not vocabulary:
        return {"lengths.npy": lengths}
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    index = bm25s.BM25(k1=K1, b=B, method=METHOD, csc_backend="numpy", backend="numpy")
    numbers = [[vocabulary[term] for term in document] for document in documents]
    index.index((numbers, vocabulary), create_empty_token=False, show_progress=False)
    counters = [Counter(document) for document in documents]
    counts = [counter[term] for term in vocabulary for counter in counters if term in counter]
    return {
        "data.csc.index.npy": index.scores["data"],
        "indices.csc.index.npy": index.scores["indices"],
        "indptr.csc.index.npy": index.scores["indptr"],
        "counts.npy": np.array(counts, np.int32),
        "lengths.npy": lengths,
    }


@pytest.mark.parametrize("part", [1, 7, 40])
def test_a_keyword_index_in_parts_is_that_of_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    table = chunk_table(40)
    for name in ("parts", "whole"):
        (tmp_path / name).mkdir()
    write_keyword_index(tmp_path / "whole", table)
    monkeypatch.setattr(lexical_writer, "PART", part)
    monkeypatch.setattr(posting_lists, "MOST", part)
    write_keyword_index(tmp_path / "parts", table)
    assert folder_bytes(tmp_path / "parts") == folder_bytes(tmp_path / "whole")
    words = map_table(tmp_path / "parts" / WORDS_FILE, KEYWORD_WORDS)
    lengths = map_table(tmp_path / "parts" / ROWS_FILE, KEYWORD_ROWS)["length"].to_pylist()
    columns = (table[name].to_pylist() for name in ("title", "heading_path", "text"))
    content = [
        [word for part in (*(h for h in path if h != title), text) for word in words_in(part)]
        for title, path, text in zip(*columns, strict=True)
    ]
    assert lengths == [*map(len, content)]
    for word, rows in zip(words["word"].to_pylist(), words["rows"].to_pylist(), strict=True):
        assert rows == [row for row, own in enumerate(content) if word in own]


def test_a_generation_in_parts_has_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name, part in (("whole", 25_000), ("parts", 17)):
        monkeypatch.setattr(lexical_writer, "PART", part)
        config, store = config_for(tmp_path / name, max_graph_chunks=0), Store(tmp_path / name)
        generation = build_generation(store, TENANT, chunk_table(60), clustered_vectors(60), config, MODEL)
        generation.close()
        files = folder_bytes(store.generation(TENANT, generation.id))
        del files["manifest.json"]  # when it was made, and whose signature it has
        found.append((generation.id, files))
    assert found[0] == found[1]


def test_a_digest_depends_on_values_alone() -> None:
    table = chunk_table(30)
    digest = values_digest(table)
    pieces = pa.concat_tables([table.slice(0, 3), table.slice(3, 20), table.slice(23)])
    assert values_digest(pieces) == digest
    assert values_digest(pieces.take(list(range(30)))) == digest
    assert values_digest(table.select(table.column_names[::-1])) == digest
    assert len({values_digest(table.slice(start, size)) for start, size in [(0, 30), (0, 29), (1, 29)]}) == 3


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        (["ab", "c"], ["a", "bc"], pa.string()),
        (["", "a"], [None, "a"], pa.string()),
        ([[1], [2, 3]], [[1, 2], [3]], pa.list_(pa.int32())),
        ([[], [1]], [None, [1]], pa.list_(pa.int32())),
        ([None, 0], [0, None], pa.int32()),
        ([True, False], [False, True], pa.bool_()),
        ([{"a": "x", "b": "y"}], [{"a": "xy", "b": ""}], pa.struct([("a", pa.string()), ("b", pa.string())])),
        ([{"a": None}], [None], pa.struct([("a", pa.string())])),
        ([1, 2], [2, 1], pa.timestamp("ms", tz="UTC")),
    ],
    ids=["borders", "null text", "lists", "null list", "null place", "truth", "fields", "null struct", "times"],
)
def test_other_values_have_another_digest(one: list[object], other: list[object], kind: pa.DataType) -> None:
    first, second = (values_digest(pa.table({"column": pa.array(values, kind)})) for values in (one, other))
    assert first != second
