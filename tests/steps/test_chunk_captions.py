"""A caption stays with its table, above or below it, and the table's later passages know it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.cutting import WordTokenizer, page, section_of

from rag_assets.steps.chunks.chunking import build_chunks
from rag_assets.steps.contexts.contextualize import lexical_prefixes, metadata_prefixes
from rag_serving.text.structure import is_caption

CAPTION = "Table 3: Hours of the pumps by month"
PROSE = "word " * 229 + "end"


def table(rows: int) -> list[tuple[str, str]]:
    head = [("table", "| Pump | Hours in May |\n|---|---|")]
    return [*head, *(("table", f"| Pump {number} of the harbour | {7 * number} |") for number in range(rows))]


def chunks(*atoms: tuple[str, str]) -> pa.Table:
    return build_chunks(section_of(list(atoms)), page(), WordTokenizer())


def test_a_caption_above_is_not_parted_from_its_table() -> None:
    texts = chunks(("paragraph", PROSE), ("paragraph", CAPTION), *table(25))["text"].to_pylist()
    assert texts[0].endswith("end")
    assert texts[1].startswith(CAPTION)


def test_a_caption_below_is_not_parted_from_its_table() -> None:
    texts = chunks(*table(25), ("paragraph", CAPTION), ("paragraph", PROSE))["text"].to_pylist()
    (captioned,) = [text for text in texts if CAPTION in text]
    assert "| Pump 24 of the harbour | 168 |" in captioned


def test_passages_inside_of_a_table_are_indexed_with_its_caption_and_columns() -> None:
    cut = chunks(("paragraph", CAPTION), *table(90))
    assert len(cut) > 2
    for prefixes in (metadata_prefixes(cut), lexical_prefixes(cut)):
        assert CAPTION not in prefixes[0]
        assert all(f"{CAPTION} Pump, Hours in May" in prefix for prefix in prefixes[1:])
    assert not any(CAPTION in text for text in cut["text"].to_pylist()[1:])


def test_a_passage_without_a_table_has_no_head_of_one() -> None:
    cut = chunks(("paragraph", PROSE), ("paragraph", PROSE))
    assert metadata_prefixes(cut) == ["Deploy guide › Rolling back"] * len(cut)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("Table 12. Emissions by year", True),
        ("**Figure IV** The harbour at night", True),
        ("Abbildung 3: Der Hafen", True),
        ("Tables are cut between rows", False),
        ("Table of contents", False),
        ("Figure it out yourself", False),
        (f"Table 1 {'x' * 400}", False),
    ],
)
def test_captions_begin_with_their_number(text: str, is_one: bool) -> None:
    assert is_caption(text) == is_one
