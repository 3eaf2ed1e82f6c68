"""One edited paragraph of a long PDF: only its own passages are embedded again."""

from __future__ import annotations

from pathlib import Path

from pdf.laid_out_pdf import Line, laid_out, paragraph
from support.counting_embedder import Counting
from support.cutting import WordTokenizer
from support.section_pages import page

from rag_assets.state.content_cache import VectorCache
from rag_assets.steps.chunks.chunking import build_chunks
from rag_assets.steps.chunks.select import join_sources
from rag_assets.steps.contexts.contextualize import build_contexts
from rag_assets.steps.files.pdf.reading import pdf_text
from rag_assets.steps.formats.blocks import BUDGET
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.artifacts.schema import PAGES

PAGES_OF_REPORT = 300
EDITED = 157
PROSE = (
    "The station is inspected every quarter by two engineers who write down what they see in",
    "the journal of the harbour, and the report is filed with the office on the same day so that",
    "the next shift can read it before the valves are opened for the night.",
)


def report(edited: str) -> bytes:
    """A report of 300 pages, a heading every third page; paragraphs are told apart by their numbers."""
    pages = []
    for number in range(1, PAGES_OF_REPORT + 1):
        head = [Line(72, 120, f"Berth {number}", 16)] if number % 3 == 1 else []
        said = edited if number == EDITED else f"Pump {number} ran {7 * number} hours without a fault."
        texts = (*PROSE * 2, f"Berth journal entry {number}.")
        pages.append([*head, *paragraph(72, 150, *texts), *paragraph(72, 260, said, *PROSE[1:])])
    return laid_out(*pages)


def embedded(file: bytes, version: int, embedder: Counting, folder: Path) -> list[str]:
    """Return the texts that are embedded for a version of the report, by the steps of a build."""
    body = pdf_text(file, BUDGET, None).body
    facts = {"space": "files", "url": "/p/7", "labels": [], "ancestors": [], "readers": "everyone", "lang": "en"}
    row = page(body, title="report", body_format="blocks", anchor_flavor="html", version=version, **facts)
    pages = PAGES.table([row])
    chunks = join_sources({"files": build_chunks(build_sections(pages).sections, pages, WordTokenizer())})
    texts = build_contexts(chunks, "metadata")["contextualized"].to_pylist()
    embedder.asked.clear()
    VectorCache(folder, embedder.name).embed(embedder, texts)
    return texts


def test_one_edited_paragraph_of_300_pages_embeds_its_own_passages_alone(tmp_path: Path) -> None:
    embedder = Counting()
    before = embedded(report("Pump 157 ran 1099 hours without a fault."), 1, embedder, tmp_path)
    assert len(embedder.asked) == len(set(before)) > 150
    edited = report("Pump 157 was replaced in May, after it had stopped twice in April.")
    after = embedded(edited, 2, embedder, tmp_path)
    assert set(embedder.asked) == set(after) - set(before)
    assert 1 <= len(embedder.asked) <= 3
    assert any("replaced in May" in text for text in embedder.asked)
    embedded(edited, 3, embedder, tmp_path)
    assert not embedder.asked
