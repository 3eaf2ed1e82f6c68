"""Which chunks are indexed, and why the others are not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rag_assets.steps.chunks.select import CollisionError, join_sources, select_chunks
from rag_serving.artifacts.schema import CHUNKS


def chunks(*rows: tuple[str, list[str], bool]) -> pa.Table:
    empty = dict.fromkeys(CHUNKS.columns.names)
    made: list[Any] = [
        {**empty, "page_id": page_id, "chunk_id": f"{page_id}:1:0", "chunk_idx": 0}
        | {"labels": labels, "is_boilerplate": boilerplate, "text": "Some words."}
        for page_id, labels, boilerplate in rows
    ]
    return CHUNKS.table(made)


def test_a_dropped_label_leaves_a_page_out_and_says_which() -> None:
    selection = select_chunks(chunks(("1", ["Archive"], False), ("2", ["howto"], False)), ["archive"], True)
    assert selection.chunks["page_id"].to_pylist() == ["2"]
    assert selection.excluded == {"1:1:0": "label 'Archive'"}


def test_boilerplate_is_left_out_only_where_that_is_asked() -> None:
    table = chunks(("1", [], True), ("2", [], False))
    assert select_chunks(table, [], True).reasons() == {"boilerplate": 1}
    assert select_chunks(table, [], False).reasons() == {}


@pytest.mark.parametrize(
    "text", ["[" * 4000, "```json\n[[[[\n```", "~~~ yaml\n- -\n~~~", "— … —", "🙂 👍", "\n", "```\n{};\n```"]
)
def test_a_text_without_words_is_left_out_and_says_so(text: str) -> None:
    table = chunks(("1", [], False), ("2", [], False))
    place = table.schema.get_field_index("text")
    both = table.set_column(place, "text", pa.array([text, "```json\n[1]\n```"], pa.string()))
    selection = select_chunks(both, [], True)
    assert selection.excluded == {"1:1:0": "its text has no words"}
    assert selection.pages_without_chunks(both) == {"1": "its text has no words"}


def test_pages_are_left_out_with_a_reason_each() -> None:
    table = chunks(("1", [], False), ("2", [], False), ("3", [], False))
    selection = select_chunks(table, [], True).without_pages({"1": "one", "3": "other", "4": "not there"})
    assert selection.chunks["page_id"].to_pylist() == ["2"]
    assert selection.excluded == {"1:1:0": "one", "3:1:0": "other"}


def test_each_chunk_is_kept_or_explained() -> None:
    table = chunks(("1", ["index"], True), ("2", [], True), ("3", [], False))
    selection = select_chunks(table, ["index"], True)
    assert {*selection.chunks["chunk_id"].to_pylist(), *selection.excluded} == set(table["chunk_id"].to_pylist())


def test_joined_chunks_know_their_source_and_stand_in_page_order() -> None:
    joined = join_sources({"ops": chunks(("3", [], False), ("1", [], False)), "eng": chunks(("2", [], False))})
    assert joined["page_id"].to_pylist() == ["1", "2", "3"]
    assert joined["source"].to_pylist() == ["ops", "eng", "ops"]


def test_a_tenant_without_chunks_joins_to_an_empty_table() -> None:
    assert join_sources({}).column_names == [*CHUNKS.columns.names, "source", "kind"]


def test_two_sources_with_the_same_page_id_are_refused_with_the_mend() -> None:
    with pytest.raises(
        CollisionError, match=r"page '1' is in source 'eng' and in source 'ops'.*sources\.ops\.id_prefix"
    ):
        join_sources({"eng": chunks(("1", [], False)), "ops": chunks(("1", [], False))})
