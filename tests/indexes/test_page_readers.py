from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.synthetic import MODEL, TENANT, chunk_row, chunk_table, clustered_vectors, config_for

from rag_assets.publishing.build import build_generation
from rag_assets.publishing.workspace import page_readers
from rag_serving.access.principals import Principal, satisfies
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store
from rag_serving.indexes.sources import FILE, ReaderComparison, narrowed_pages

CLASSES = ["everyone", "nobody", "group:a", "group:b", "group:a|group:b", "group:a&group:b"]
CALLERS = [Principal("t", None, frozenset(groups)) for groups in ("", "a", "b", "ab")]
ROWS = st.lists(
    st.tuples(st.sampled_from("12"), st.sampled_from("xyz"), st.sampled_from(CLASSES)), max_size=4, unique=True
)


def table_of(rows: list[tuple[str, str, str]]) -> object:
    return page_readers(
        GENERATION_CHUNKS.table(
            [chunk_row(page, number, text, readers=readers) for number, (page, text, readers) in enumerate(rows)]
        )
    )


@given(ROWS, ROWS)
def test_where_nothing_is_narrowed_no_text_is_taken_from_anybody(
    old: list[tuple[str, str, str]], new: list[tuple[str, str, str]]
) -> None:
    narrowed = narrowed_pages(table_of(old), table_of(new))
    for page, text, readers in old:
        if page in narrowed:
            continue
        for caller in CALLERS:
            if not satisfies(caller, readers):
                continue
            after = [other for where, words, other in new if (where, words) == (page, text)]
            if not after:  # edited: the caller may read what the page says now
                after = [other for where, _, other in new if where == page]
                assert after
                assert all(satisfies(caller, other) for other in after)
            assert any(satisfies(caller, other) for other in after)


@given(ROWS)
def test_the_same_pages_are_not_narrowed(rows: list[tuple[str, str, str]]) -> None:
    assert narrowed_pages(table_of(rows), table_of(rows[::-1])) == []


def test_the_readers_of_a_page_whose_text_was_dropped_as_a_duplicate_count() -> None:
    def kept(readers: str) -> object:
        place = {"chunk_id": "a:9:3:0", "space": "S", "title": "T", "heading": "H", "url": "U", "labels": []}
        return page_readers(
            GENERATION_CHUNKS.table([chunk_row("1", 0, "text", places=[{**place, "readers": readers}])])
        )

    assert narrowed_pages(kept("everyone"), kept("group:a")) == ["a:9"]
    assert narrowed_pages(kept("group:a"), kept("everyone")) == []


@pytest.mark.parametrize("damage", ["missing", "one bit", "older program", "no folder"])
def test_what_cannot_be_known_is_taken_for_narrowed(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    config, store = config_for(tmp_path), Store(tmp_path)
    first, second = (
        build_generation(store, TENANT, chunk_table(count), clustered_vectors(count), config, MODEL).id
        for count in (8, 12)
    )
    assert not ReaderComparison(store, TENANT).narrows(first, second)
    assert ReaderComparison(store, TENANT).narrows(second, first)
    folder = store.generation(TENANT, second)
    if damage == "missing":
        (folder / FILE).unlink()
    elif damage == "one bit":
        content = bytearray((folder / FILE).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / FILE).unlink()
        (folder / FILE).write_bytes(content)
    elif damage == "older program":
        manifest = (folder / "manifest.json").read_text()
        (folder / "manifest.json").write_text(manifest.replace(FILE, "another.parquet"))
    else:
        second = "gone"
    caplog.clear()
    comparison = ReaderComparison(store, TENANT)
    assert [comparison.narrows(first, second) for _ in range(2)] == [True, True]
    assert len(caplog.records) == 1
