"""Indexes that are made of a published generation's are, to the bit, those that are made of all rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.synthetic import MODEL, TENANT, chunk_row, chunk_table, config_for, folder_bytes

from rag_assets.publishing import build as building
from rag_assets.publishing import lexical_writer, posting_lists
from rag_assets.publishing.arrange import in_order
from rag_assets.publishing.build import build_dense, build_lexical_index, commit_generation
from rag_assets.publishing.lexical_writer import (
    COLUMNS,
    EarlierKeywords,
    EarlierLexical,
    build_lexical,
    write_keyword_index,
)
from rag_assets.publishing.posting_lists import find_kept_rows, same_cells
from rag_serving.artifacts.keyword_tables import KEYWORD_PAGES, KEYWORD_ROWS, KEYWORD_WORDS
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store, map_table
from rag_serving.indexes.keyword_index import FILES
from rag_serving.indexes.lexical import LexicalIndex

_WORDS = ["crane", "cranes", "KIP-500", "a.b_c", "the", "Anträge", "港口", "crane's", "x", "--flag", ""]
TEXT = st.lists(st.sampled_from(_WORDS), max_size=6).map(" ".join)
ROW = st.fixed_dictionaries(
    {
        "text": TEXT,
        "title": st.sampled_from(["Crane", "The berth", ""]),
        "heading_path": st.one_of(st.none(), st.lists(st.sampled_from(["Crane", "Berth", "Lock gate"]), max_size=2)),
        "labels": st.one_of(st.none(), st.lists(st.sampled_from(["crane", "how to", "x"]), max_size=2)),
        "lexical_prefix": st.sampled_from(["", "Crane"]),
        "lang": st.sampled_from([None, "de"]),
    }
)
PLACE = st.tuples(st.sampled_from(["eng", "ops"]), st.integers(0, 3), st.integers(0, 3))  # source, page, chunk
CORPUS = st.dictionaries(PLACE, ROW, max_size=12)
_SCHEMAS = dict(zip(FILES, (KEYWORD_WORDS, KEYWORD_ROWS, KEYWORD_PAGES), strict=True))
Corpus = dict[tuple[str, int, int], dict[str, Any]]


def table_of(corpus: Corpus) -> pa.Table:
    rows = [
        chunk_row(f"{source}{page}", index, source=source, **fields) for (source, page, index), fields in corpus.items()
    ]
    return in_order(GENERATION_CHUNKS.table(rows))


def changed(before: Corpus, new: Corpus, gone: Sequence[bool]) -> Corpus:
    """Some rows go, and some that are new take the place of others."""
    kept = {place: row for (place, row), out in zip(before.items(), gone, strict=True) if not out}
    return {**kept, **new}


@given(CORPUS, st.dictionaries(PLACE, ROW, max_size=3), st.data(), st.integers(1, 40))
@settings(max_examples=examples(1.5))
def test_what_is_kept_and_what_is_new_give_the_bytes_of_all_rows(
    tmp_path_factory: pytest.TempPathFactory, before: Corpus, new: Corpus, data: st.DataObject, block: int
) -> None:
    gone = data.draw(st.lists(st.sampled_from([False, False, True]), min_size=len(before), max_size=len(before)))
    old, table, folder = table_of(before), table_of(changed(before, new, gone)), tmp_path_factory.mktemp("index")
    for name in ("old", "kept", "whole"):
        (folder / name).mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexical_writer, "PART", 3)
        patch.setattr(posting_lists, "BLOCK", block)
        write_both(folder / "old", old)
        lexical = EarlierLexical(
            LexicalIndex.open(folder / "old" / "lexical"),
            find_kept_rows(table, old, ["lexical_prefix", "text", "lang"]),
        )
        tables = [
            map_table(folder / "old" / name, schema)
            for name, schema in zip(FILES, (KEYWORD_WORDS, KEYWORD_ROWS, KEYWORD_PAGES), strict=True)
        ]
        keywords = EarlierKeywords(*tables, find_kept_rows(table, old, COLUMNS))
        write_both(folder / "kept", table, lexical, keywords)
    write_both(folder / "whole", table)
    assert folder_bytes(folder / "kept") == folder_bytes(folder / "whole")


def write_both(
    folder: Path, table: pa.Table, lexical: EarlierLexical | None = None, keywords: EarlierKeywords | None = None
) -> None:
    build_lexical(folder / "lexical", table, earlier=lexical)
    write_keyword_index(folder, table, keywords)


@given(CORPUS, CORPUS)
@settings(max_examples=examples(0.5))
def test_a_row_is_kept_that_has_the_same_cells(before: Corpus, after: Corpus) -> None:
    old, table = table_of(before), table_of(after)
    kept = find_kept_rows(table, old, ["text", "labels", "heading_path"])
    compared = ["chunk_id", "source", "page_id", "chunk_idx", "text", "labels", "heading_path"]
    rows, others = ([*zip(*(one[name].to_pylist() for name in compared), strict=True)] for one in (table, old))
    expected = [next((n for n, other in enumerate(others) if repr(other) == repr(row)), -1) for row in rows]
    assert kept.earlier.tolist() == expected
    assert kept.fresh.tolist() == [row for row, earlier in enumerate(expected) if earlier < 0]
    numbers = {earlier: row for row, earlier in enumerate(expected) if earlier >= 0}
    assert kept.renumbered.tolist() == [numbers.get(row, -1) for row in range(len(old))]


def test_rows_that_stand_in_another_order_are_all_new() -> None:
    table = chunk_table(9)
    kept = find_kept_rows(table, table.take([1, 0, *range(2, 9)]), ["text"])
    assert kept.earlier.tolist() == [-1] * 9


def test_cells_are_the_same_to_the_last_member() -> None:
    kind = pa.list_(pa.string())
    one = pa.array([["a", "b"], ["ab"], [], None, None, ["a"], ["b", None]], kind)
    other = pa.array([["a", "b"], ["a", "b"], None, [], None, ["b"], ["b", None]], kind)
    assert same_cells(one, other).tolist() == [True, False, False, False, True, False, True]


def vectors_for(table: pa.Table) -> np.ndarray[Any, Any]:
    """A vector of each text, whichever table it stands in."""
    numbers = [np.random.default_rng(int(key, 16) % 2**32).normal(size=16) for key in table["text_hash"].to_pylist()]
    vectors = np.array(numbers)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def build(home: Path, table: pa.Table, analyzed: list[int] | None = None) -> tuple[str, dict[str, str]]:
    """Build and publish; returns the generation's id and the digests of its files."""
    store, config = Store(home), config_for(home, max_graph_chunks=0)
    build_dense(store, TENANT, table, vectors_for(table), config, MODEL)
    build_lexical_index(store, TENANT, table, lambda _, total: analyzed.append(total) if analyzed is not None else None)
    manifest = commit_generation(store, TENANT, config)
    store.point_current(TENANT, manifest.id)
    files = folder_bytes(store.generation(TENANT, manifest.id))
    del files["manifest.json"]  # when it was made, and whose signature it has
    return manifest.id, files


def a_change(table: pa.Table) -> pa.Table:
    """Another text on one page, one page gone, one new."""
    rows = table.to_pylist()
    rows[10] = chunk_row("2", 2, "a winch beside the wharf", version=2)
    rows = [row for row in rows if row["page_id"] != "5"]
    return GENERATION_CHUNKS.table([*rows, chunk_row("new", 0, "keel laying")])


def test_a_changed_tenant_gets_the_generation_of_a_new_home(tmp_path: Path) -> None:
    table, analyzed = chunk_table(60), list[int]()
    build(tmp_path / "home", table)
    second = build(tmp_path / "home", a_change(table), analyzed)
    assert second == build(tmp_path / "other", a_change(table))
    assert analyzed == [2]  # texts of the rows that are new


@pytest.mark.parametrize(
    "damage", ["altered", "missing", "unsigned", "other library", "written to meanwhile", "nothing published"]
)
def test_what_cannot_be_trusted_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    table, analyzed = chunk_table(60), list[int]()
    first, _ = build(tmp_path / "home", table)
    folder = Store(tmp_path / "home").generation(TENANT, first)
    counts = folder / "lexical" / "counts.npy"
    if damage == "altered":
        data = bytearray(counts.read_bytes())
        data[-4] ^= 3
        counts.unlink()
        counts.write_bytes(data)
    elif damage == "missing":
        counts.unlink()
    elif damage == "unsigned":
        manifest = folder / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"signature": "', '"signature": "0'))
    elif damage == "other library":
        monkeypatch.setattr(building, "library_versions", lambda: {"PyStemmer": "0"})
    elif damage == "nothing published":
        Store(tmp_path / "home").pointer(TENANT).unlink()
    else:
        write = lexical_writer.build_lexical

        def interrupted(*arguments: Any) -> int:
            if len(arguments) == 4:
                os.utime(counts, ns=(1, 1))
            return write(*arguments)

        monkeypatch.setattr(building, "build_lexical", interrupted)
    second = build(tmp_path / "home", a_change(table), analyzed)
    assert analyzed[-1] == 57
    monkeypatch.undo()
    assert second == build(tmp_path / "other", a_change(table))


def test_a_tenant_with_mostly_other_rows_is_indexed_anew(tmp_path: Path) -> None:
    analyzed = list[int]()
    build(tmp_path / "home", chunk_table(60))
    second = build(tmp_path / "home", chunk_table(60, seed=1), analyzed)
    assert analyzed == [60]
    assert second == build(tmp_path / "other", chunk_table(60, seed=1))
