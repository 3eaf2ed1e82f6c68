"""Quotes have rectangles on all of their pages, in time or not at all."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from sources.pdf_writer import pdf
from support.paged_chunks import chunks_of_page, page_row
from support.passages import chunk_of

from rag_assets.steps.formats.blocks import Block
from rag_serving.access.principals import Principal
from rag_serving.answering.citations import citations_of
from rag_serving.artifacts.store import Store
from rag_serving.indexes.originals import Original
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.claims import Claim, Verdict
from rag_serving.records.passages import Candidate, Lock
from rag_serving.rendering.cited import CitedPlaces
from rag_serving.rendering.pictures import Pictures

FIRST, SECOND = "Mooring lines are checked every hour", "of the night by two men."
BOTH = f"{FIRST} {SECOND}"
READER = Principal("acme", "ann", frozenset())


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pictures]:
    with closing(Pictures(tmp_path_factory.mktemp("cited"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Original:
    content = pdf(FIRST, SECOND)
    digest = hashlib.sha256(content).hexdigest()
    path = Store(tmp_path_factory.mktemp("files")).originals("acme") / digest
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return Original(digest, "application/pdf", len(content), 2, path)


def answered() -> tuple[Answer, Lock]:
    """An answer with one quote, which goes over the end of a page."""
    (row,) = chunks_of_page(page_row([Block("paragraph", BOTH, page=1, breaks=((len(FIRST) + 1, 2),))]))
    chunk = chunk_of(row["text"], "7:3:0", **{name: row[name] for name in ("anchor", "url", "structure")})
    lock = Lock((Candidate(chunk, 1.0),))
    cited = citations_of([Verdict(Claim(BOTH, 1, BOTH), "exact", "found", 1, 0, len(BOTH))], lock)
    return Answer("answered", f"{BOTH} [1]", cited), lock


def located(pictures: Pictures, file: Original | None, wait_s: float) -> Citation:
    answer, lock = answered()
    with closing(CitedPlaces(pictures, wait_s)) as cited:
        return cited.located(answer, lock, lambda _: file, READER).citations[0]


def test_a_quote_over_the_end_of_a_page_has_rectangles_on_both(pictures: Pictures, file: Original) -> None:
    citation = located(pictures, file, 20)
    assert (citation.page, len(citation.boxes or ())) == (1, 1)
    (later,) = citation.continued
    assert (later.page, len(later.boxes or ())) == (2, 1)
    shape: dict[str, Any] = citation.payload()
    assert len(shape["boxes"][0]) == 4
    assert shape["continued"] == [{"page": 2, "page_label": None, "boxes": [list(box) for box in later.boxes or ()]}]


def test_what_may_not_be_shown_or_is_broken_has_none(pictures: Pictures, file: Original) -> None:
    for other in (None, replace(file, media_type="text/plain"), replace(file, sha256="0" * 64)):
        citation = located(pictures, other, 5)
        assert (citation.page, citation.page_label, citation.boxes) == (1, None, None)
        assert [(part.page, part.boxes) for part in citation.continued] == [(2, None)]


def test_an_answer_does_not_wait_for_a_slow_file(
    pictures: Pictures, file: Original, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object) -> None:
        time.sleep(1)

    monkeypatch.setattr(pictures, "layer", slow)
    monkeypatch.setattr(pictures, "known_layer", lambda *_: None)
    begun = time.perf_counter()
    assert located(pictures, file, 0.05).boxes is None
    assert time.perf_counter() - begun < 0.7
