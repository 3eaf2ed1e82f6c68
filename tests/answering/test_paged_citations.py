"""A citation of a paged document has the page of its quote, not of its passage."""

from __future__ import annotations

from support.paged_chunks import chunks_of_page, page_row
from support.passages import chunk_of

from rag_assets.steps.formats.blocks import Block
from rag_serving.answering.citations import citations_of
from rag_serving.records.claims import Claim, Verdict
from rag_serving.records.passages import Candidate, Chunk, Lock

FIRST = "Mooring lines are checked every hour of the night by two men."
SECOND = "Cranes stop at twenty metres a second, whatever the master of the ship says of it."
BOTH = f"{FIRST} {SECOND}"


def passage(*blocks: Block) -> Chunk:
    (row,) = chunks_of_page(page_row(blocks))
    return chunk_of(row["text"], "7:3:0", **{name: row[name] for name in ("anchor", "url", "structure")})


def cited(chunk: Chunk, quote: str) -> tuple[int | None, str]:
    start = chunk.text.index(quote)
    verdict = Verdict(Claim(quote, 1, quote), "exact", "found", 1, start, start + len(quote))
    (citation,) = citations_of([verdict], Lock((Candidate(chunk, 1.0),)))
    return citation.page, citation.fragment_url.partition(":~:")[0]


def test_the_page_is_that_of_the_quotes_first_character() -> None:
    chunk = passage(Block("paragraph", BOTH, page=12, breaks=((len(FIRST) + 1, 13),)))
    assert cited(chunk, FIRST) == (12, "https://wiki.example/pages/7#page=12")
    assert cited(chunk, SECOND) == (13, "https://wiki.example/pages/7#page=13")
    assert cited(chunk, f"night by two men. {SECOND}") == (12, "https://wiki.example/pages/7#page=12")


def test_what_has_no_pages_has_none() -> None:
    assert cited(passage(Block("paragraph", BOTH)), SECOND)[0] is None
    assert cited(chunk_of(BOTH, anchor="page=4", url="https://w/p/7#page=4"), SECOND) == (4, "https://w/p/7#page=4")
