"""Prefixes say where a chunk comes from, once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rag_assets.steps.contexts.contextualize import (
    COMPONENTS,
    MAX_PREFIX_CHARS,
    WrittenContext,
    build_contexts,
    contextualized,
    embedded_texts,
    lexical_prefix,
    metadata_prefix,
    with_vector_keys,
)
from rag_serving.artifacts.schema import GENERATION_CHUNKS, SELECTED_CHUNKS


def chunk(chunk_id: str, title: str = "Deploy guide", path: tuple[str, ...] = ("Deploy guide", "Rolling back")) -> Any:
    row: dict[str, Any] = dict.fromkeys(SELECTED_CHUNKS.columns.names)
    return row | {"chunk_id": chunk_id, "title": title, "heading_path": list(path), "text": "Run it.", "token_count": 4}


def test_the_title_is_not_repeated() -> None:
    assert metadata_prefix("Deploy guide", ["Deploy guide", "Rolling back"]) == "Deploy guide › Rolling back"


def test_a_title_that_the_path_lacks_comes_first() -> None:
    assert metadata_prefix("Deploy guide", ["Rolling  back"]) == "Deploy guide › Rolling back"


def test_without_a_title_or_heading_there_is_no_prefix() -> None:
    assert metadata_prefix(" ", []) == ""


def test_a_long_path_loses_its_middle_and_keeps_title_and_last_heading() -> None:
    prefix = metadata_prefix("Deploy guide", ["x" * 90, "y" * 90, "Rolling back"])
    assert prefix == "Deploy guide › " + "y" * 90 + " › Rolling back"


def test_a_prefix_is_never_longer_than_its_bound() -> None:
    assert len(metadata_prefix("t" * 500, ["h" * 500])) == MAX_PREFIX_CHARS


def test_the_level_is_recorded() -> None:
    chunks = SELECTED_CHUNKS.table([chunk("1:1:0")])
    assert build_contexts(chunks, "metadata").to_pylist() == [
        {
            "chunk_id": "1:1:0",
            "prefix": "Deploy guide › Rolling back",
            "lexical_prefix": lexical_prefix("Deploy guide", ["Rolling back"]),
            "contextualized": "Deploy guide › Rolling back\nRun it.",
            "level": "metadata",
            "quality": None,
            "issues": [],
            "tokens_in": 0,
            "tokens_out": 0,
            "document_type": "wiki page",
            "generation_timestamp": None,
            "llm_provider": None,
            "llm_model": None,
            "token_count": 4,
            "length_score": None,
            "relevance_score": None,
            "coherence_score": None,
            "specificity_score": None,
        }
    ]
    (bare,) = build_contexts(chunks, "none").to_pylist()
    assert (bare["prefix"], bare["lexical_prefix"], bare["contextualized"], bare["level"]) == (
        "",
        "",
        "Run it.",
        "none",
    )


def test_what_a_model_wrote_stands_under_the_place_for_both_indexes() -> None:
    chunks = SELECTED_CHUNKS.table([chunk(f"1:1:{index}") for index in range(3)])
    written = {"1:1:0": WrittenContext("It tells how.", 0.75, ("too short: 3 words",), 1, 40, 4)}
    rows = build_contexts(chunks, "metadata", written, {"1:1:1": "down", "1:1:2": "skipped: odd"}).to_pylist()
    assert [row["level"] for row in rows] == ["llm", "metadata", "skipped"]
    assert rows[0]["contextualized"] == "Deploy guide › Rolling back\nIt tells how.\nRun it."
    assert rows[0]["lexical_prefix"].endswith("\nIt tells how.")
    assert [row["issues"] for row in rows] == [["too short: 3 words"], ["down"], ["skipped: odd"]]
    assert (rows[0]["quality"], rows[0]["tokens_in"], rows[1]["quality"]) == (0.75, 40, None)


def test_who_wrote_a_context_when_and_how_good_each_part_of_it_is_stands_beside_it() -> None:
    chunks = SELECTED_CHUNKS.table([chunk("1:1:0"), chunk("1:1:1", "Prices.pdf", ("Prices.pdf",))])
    made = WrittenContext(
        "It tells how.", 0.75, (), 1, 40, 4, 0, "openai", "gpt-4o-mini", 1772352000.5, (1.0, 0.5, 1.0, 0.8)
    )
    first, second = build_contexts(
        chunks, "metadata", {"1:1:0": made}, count_tokens=lambda texts: [len(text.split()) for text in texts]
    ).to_pylist()
    assert (first["document_type"], second["document_type"]) == ("wiki page", "PDF file")
    assert first["generation_timestamp"] == datetime(2026, 3, 1, 8, 0, 0, 500_000, tzinfo=UTC)
    assert (first["llm_provider"], first["llm_model"]) == ("openai", "gpt-4o-mini")
    assert [first[name] for name in COMPONENTS] == pytest.approx([1.0, 0.5, 1.0, 0.8])
    assert first["token_count"] == 4 + 8
    assert second["token_count"] == 5
    assert second["generation_timestamp"] is second["llm_model"] is second["length_score"] is None


def test_what_is_embedded_is_the_prefix_above_the_text() -> None:
    chunks = SELECTED_CHUNKS.table([chunk("1:1:0")])
    whole = contextualized(chunks, build_contexts(chunks, "metadata"))
    assert embedded_texts(whole) == ["Deploy guide › Rolling back\nRun it."]
    assert embedded_texts(contextualized(chunks, build_contexts(chunks, "none"))) == ["Run it."]


def test_embedded_chunks_name_their_vectors() -> None:
    chunks = SELECTED_CHUNKS.table([chunk("1:1:0")])
    whole = with_vector_keys(contextualized(chunks, build_contexts(chunks, "none")), [["abc"]])
    assert whole.schema.names == GENERATION_CHUNKS.columns.names
    assert whole["vector_keys"].to_pylist() == [["abc"]]
