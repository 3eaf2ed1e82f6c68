"""What OCR read is never called exact; where it was not sure, no answer rests on it alone."""

from __future__ import annotations

import pytest
from support.paged_chunks import chunks_of_page, page_row
from support.passages import candidate_of, chunk_of

from rag_assets.steps.formats.blocks import Block
from rag_serving.answering.citations import citations_of, place_told
from rag_serving.answering.gates import gate_ocr
from rag_serving.records.claims import Claim, Verdict
from rag_serving.records.passages import Candidate, Chunk, Lock

SURE = "Mooring lines are checked every hour of the night by two men."
UNSURE = "Cranes stop at twenty metres a second, whatever the master of the ship says of it."


def scanned() -> Chunk:
    blocks = [Block("paragraph", SURE, page=3, confidence=94), Block("paragraph", UNSURE, page=4, confidence=63)]
    (row,) = chunks_of_page(page_row(blocks))
    return chunk_of(row["text"], "7:3:0", **{name: row[name] for name in ("anchor", "url", "structure")})


def verdict(chunk: Chunk, quote: str, outcome: str = "exact", index: int = 1) -> Verdict:
    start = chunk.text.index(quote)
    return Verdict(Claim(quote, index, quote), outcome, "found", index, start, start + len(quote))  # type: ignore[arg-type]


@pytest.mark.parametrize(("quote", "confidence"), [(SURE, 94), (UNSURE, 63), (f"two men.\n\n{UNSURE[:20]}", 63)])
@pytest.mark.parametrize("outcome", ["exact", "fuzzy", "swapped"])
def test_a_quote_that_ocr_read_says_so_however_it_was_found(quote: str, confidence: int, outcome: str) -> None:
    chunk = scanned()
    (citation,) = citations_of([verdict(chunk, quote, outcome)], Lock((Candidate(chunk, 1.0),)))
    assert (citation.verification, citation.ocr_confidence) == ("ocr", confidence)
    assert place_told(citation) == f"ENG, version 3, page {4 if quote == UNSURE else 3}, OCR, {confidence} %"


def test_a_quote_of_a_text_layer_stays_exact() -> None:
    found = candidate_of(SURE)
    (citation,) = citations_of([verdict(found.chunk, SURE)], Lock((found,)))
    assert (citation.verification, citation.ocr_confidence) == ("exact", None)


def test_an_answer_needs_one_quote_that_was_read_surely() -> None:
    lock = Lock((Candidate(scanned(), 1.0), candidate_of(SURE, "8:1:0")))
    chunk, other = lock.passages[0].chunk, lock.passages[1].chunk
    unsure = verdict(chunk, UNSURE)
    refusal = gate_ocr([unsure], lock, 80)
    assert refusal is not None
    assert (refusal.gate, refusal.value, refusal.threshold) == ("ocr", 63, 80)
    assert gate_ocr([unsure], lock, 60) is None
    assert gate_ocr([unsure, verdict(chunk, SURE)], lock, 80) is None
    assert gate_ocr([unsure, verdict(other, SURE, index=2)], lock, 80) is None
    assert gate_ocr([], lock, 80) is None
    dropped = Verdict(Claim("x", 2, "x"), "dropped", "not there")
    assert gate_ocr([unsure, dropped], lock, 80) is not None
