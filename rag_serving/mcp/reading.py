"""The tools that search and show stored text: search, fetch, get_passage, search_book, list_sources and the search of
contextual retrieval."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from rag_serving.escaping.targets import for_link
from rag_serving.indexes.view import ReaderView
from rag_serving.mcp.calls import Caller, Calls
from rag_serving.mcp.shapes import (
    Document,
    DocumentId,
    Limit,
    Metadata,
    Passage,
    PassageId,
    PassagesOutput,
    QueryText,
    SearchOutput,
    SourcesOutput,
    found_passage,
    hit_of,
    metadata_of,
    passage_id_of,
    passage_of,
    title_of,
)
from rag_serving.pipeline.locked import book_sources, of_books
from rag_serving.reading import read_page
from rag_serving.records.passages import Chunk
from rag_serving.retrieval.ranking import POOL, in_document_order, nearest_sections

MOST_RESULTS = 10
MAX_DOCUMENT_CHARS = 100_000
"""Of a fetched page; where it is longer its passages tell the rest."""
_PASSAGES_SEARCHED = 30
_AROUND_CHARS = 1_000
_BOOKS_NAMED = 10
NOTHING = "there is nothing with this id that may be read"
"""The same where there is nothing, and where there is something for others."""
CUT = "\n[… the rest of the page is left out; search for its headings]"


class ReadingTools:
    """Tools that read the published generation as their caller may see it."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def search(self, query: QueryText, context: Context) -> SearchOutput:
        """Return the pages with the best passages, each once."""

        def work(caller: Caller) -> SearchOutput:
            found = caller.pipeline.search(caller.principal, bounded(query, caller), _PASSAGES_SEARCHED)
            pages = {candidate.chunk.page_id: candidate for candidate in reversed(found.results)}
            best = [candidate for candidate in found.results if pages[candidate.chunk.page_id] is candidate]
            return SearchOutput(results=[hit_of(candidate) for candidate in best[:MOST_RESULTS]])

        return await self._calls.run(context, work)

    async def search_book(self, query: QueryText, context: Context, limit: Limit = 5) -> PassagesOutput:
        """Return the best passages of books with their text: those close to each other, in the book's order; of all
        sources if none is a book."""

        def work(caller: Caller) -> PassagesOutput:
            config, tenant = caller.pipeline.config, caller.pipeline.tenant
            books = of_books(config, tenant, None) if book_sources(config, tenant) else None
            found = caller.pipeline.search(caller.principal, bounded(query, caller), max(POOL, limit), books)
            chosen = in_document_order(nearest_sections(found.results, limit))
            return PassagesOutput(passages=[found_passage(candidate) for candidate in chosen])

        return await self._calls.run(context, work)

    async def search_with_context(
        self, query: QueryText, context: Context, limit: Limit = 10, score_threshold: float | None = None
    ) -> PassagesOutput:
        """Return the best passages of an index in which each has the context that it was embedded with."""

        def work(caller: Caller) -> PassagesOutput:
            found = caller.pipeline.search(caller.principal, bounded(query, caller), limit)
            kept = [one for one in found.results if score_threshold is None or one.score >= score_threshold]
            return PassagesOutput(passages=[found_passage(candidate) for candidate in kept])

        return await self._calls.run(context, work)

    async def list_sources(self, context: Context) -> SourcesOutput:
        """Return the values of filters, with the number of the caller's pages of each."""

        def work(caller: Caller) -> SourcesOutput:
            with caller.pipeline.reading(caller.principal) as view:
                return SourcesOutput.model_validate({**view.facets().payload(), "generation": view.id})

        return await self._calls.run(context, work)

    async def fetch(self, id: DocumentId, context: Context) -> Document:
        """Return a page, or a passage in its surroundings."""

        def work(caller: Caller) -> Document:
            with caller.pipeline.reading(caller.principal) as view:
                document = page_of(view, id) or _surroundings(view, id)
            if document is None:
                raise ToolError(NOTHING)
            return document

        return await self._calls.run(context, work)

    async def get_passage(self, passage_id: PassageId, context: Context) -> Passage:
        """Return a passage with its neighbours in its section."""

        def work(caller: Caller) -> Passage:
            with caller.pipeline.reading(caller.principal) as view:
                row = _row_of(view, passage_id)
                chunk = view.chunks([row])[0]
                before, after = _beside(view, chunk, -1), _beside(view, chunk, 1)
                earlier, later = view.around(row)  # as one reads
                beside = (passage_id_of(earlier[0]) if earlier else None, passage_id_of(later[0]) if later else None)
                return passage_of(chunk, (before[-_AROUND_CHARS:], after[:_AROUND_CHARS]), beside)

        return await self._calls.run(context, work)


def bounded(text: str, caller: Caller) -> str:
    """Return a question or query without outer white space. Raises ToolError: it is empty or too long."""
    text, limit = text.strip(), caller.pipeline.config.serving.max_question_chars
    if not text:
        raise ToolError("the question is empty")
    if len(text) > limit:
        raise ToolError(f"the question has {len(text)} characters, at most {limit} are read")
    return text


def page_of(view: ReaderView, page_id: str) -> Document | None:
    """Return the visible part of a page; None if there is none."""
    page = read_page(view, page_id)
    if page is None:
        return None
    facts = page.payload()
    text = "\n\n".join(_section_text(section) for section in facts["sections"])
    return Document(
        id=page_id,
        title=facts["title"],
        text=text if len(text) <= MAX_DOCUMENT_CHARS else text[:MAX_DOCUMENT_CHARS] + CUT,
        url=for_link(facts["url"]),
        metadata=Metadata(
            space=facts["space"],
            source=facts["source"],
            kind=facts["kind"],
            version=str(facts["version"]),
            updated_at=facts["updated_at"] or "",
            labels=", ".join(facts["labels"]),
            generation=view.id,
        ),
    )


def _section_text(section: dict[str, Any]) -> str:
    """Return a section with its heading; a passage stored elsewhere is replaced by its location."""
    heading, texts = f"{'#' * min(section['level'] + 1, 6)} {section['heading']}", []
    for chunk in section["chunks"]:
        missing = chunk["missing"]
        place = f"[{missing['text']} {missing['title']}: {for_link(missing['url'])}]" if missing else ""
        texts.append(chunk["text"] or place)
    return "\n\n".join([heading, *texts] if section["heading"] else texts)


def _surroundings(view: ReaderView, chunk_id: str) -> Document | None:
    row = view.row_of(chunk_id)
    if row is None:
        return None
    chunk = view.chunks([row])[0]
    parts = (_beside(view, chunk, -1), chunk.text, _beside(view, chunk, 1))
    return Document(
        id=chunk_id,
        title=title_of(chunk),
        text="\n\n".join(filter(None, parts)),
        url=for_link(chunk.url),
        metadata=metadata_of(chunk, view.id),
    )


def _beside(view: ReaderView, chunk: Chunk, direction: int) -> str:
    other = view.beside(chunk, direction)
    return other.text if other and other.heading_path == chunk.heading_path else ""


def _row_of(view: ReaderView, passage_id: str) -> int:
    """Return the row of a passage by the id of its chunk, or by its place in a book. Raises ToolError: the caller may
    read none of that id, or several books have it."""
    row = view.row_of(passage_id)
    rows = view.rows_of_passage(passage_id) if row is None else [row]
    if not rows:
        raise ToolError(NOTHING)
    if len(rows) > 1:
        chunks = ", ".join(view.chunk_ids(rows)[:_BOOKS_NAMED])
        raise ToolError(f"several books have this passage; ask for one of them by its chunk_id: {chunks}")
    return rows[0]
