"""A generation as one reader may see it.

Belongs here: handing each request to the generation with the reader's classes, and refusing rows outside of them.
Does not belong here: searching (`indexed_chunks`), who satisfies which class (`access.principals`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.columns import numbers_of
from rag_serving.artifacts.manifest import EmbedderFacts
from rag_serving.indexes.hits import Hit
from rag_serving.indexes.keyword_index import ReadableKeywords
from rag_serving.indexes.originals import Original
from rag_serving.indexes.page_contents import DroppedPassage
from rag_serving.indexes.protocols import HiddenRowError, Mask, Rows, Terms, Vector
from rag_serving.query.filters import matching_rows
from rag_serving.query.vocabulary import Names
from rag_serving.records.passages import Chunk
from rag_serving.records.queries import Facets, Filters
from rag_serving.records.sets import SetTables
from rag_serving.text.analyzer import analyze, stems
from rag_serving.text.normalization import caseless, holds

if TYPE_CHECKING:
    from rag_serving.indexes.indexed_chunks import IndexedChunks

# Passages that are read to see how a term is written.
_SHOWING = 10
# Passages with all words of a phrase that are read to see whether they contain it literally.
_READ_AT_MOST = 1000


class GenerationView:
    """The chunks of a generation whose reader classes a reader satisfies. Costs nothing until used."""

    def __init__(
        self,
        generation: IndexedChunks,
        classes: frozenset[str],
        satisfied: Callable[[frozenset[str]], frozenset[str]] | None = None,
        tables: SetTables | None = None,
    ) -> None:
        """`satisfied`: returns the subset of reader classes that the reader satisfies; None: only `classes`.
        `tables`: the only ones for queries about sets, where pages are left out."""
        self._generation, self._tables = generation, tables
        self._classes = classes
        self._satisfied = satisfied or classes.intersection
        self._readable = generation.readable_mask(classes)

    @property
    def id(self) -> str:
        return self._generation.id

    @property
    def tenant(self) -> str:
        return self._generation.tenant

    @property
    def embedder(self) -> EmbedderFacts:
        return self._generation.manifest.embedder

    @property
    def degraded(self) -> tuple[str, ...]:
        return self._generation.degraded

    @property
    def names(self) -> Names:
        return self._generation.names(self._classes)

    @property
    def keywords(self) -> ReadableKeywords:
        return self._generation.keywords(self._classes)

    def languages(self) -> Mapping[str, float]:
        return self._generation.languages(self._classes)

    def __len__(self) -> int:
        return self._generation.readable(self._classes)

    def dense(self, vector: Vector, k: int, among: Mask | None = None) -> list[Hit]:
        return self._generation.dense(vector, k, self._classes, among)

    def similarities(self, vector: Vector, rows: Rows) -> NDArray[np.float32]:
        return self._generation.similarities(vector, self._allowed(rows))

    def lexical(self, terms: Terms, k: int, among: Mask | None = None) -> list[Hit]:
        return self._generation.lexical_terms(terms, k, self._classes, among)

    def lexical_scores(self, terms: Terms) -> NDArray[np.float32]:
        return self._generation.lexical_scores(terms, self._classes)

    def term_weights(self, terms: Iterable[str]) -> dict[str, float]:
        return self._generation.term_weights(terms, self._classes)

    def expect(self, terms: Iterable[str]) -> None:
        self._generation.expect(terms)

    def frequency(self, term: str) -> int:
        return self._generation.frequency(term, self._classes)

    def correction(self, word: str) -> str | None:
        return self._generation.speller.correction(word, self.frequency, self._spellings)

    def holding(self, phrase: str) -> Rows:
        rows, wanted = self._rows_with(analyze(phrase))[:_READ_AT_MOST].tolist(), caseless(phrase)
        texts = zip(rows, self._generation.wordings(rows), strict=True)
        return np.array([row for row, text in texts if holds(caseless(text), wanted)], np.int64)

    def matching(self, filters: Filters) -> Mask:
        places = self._generation.places.readable(self._classes)
        rows = matching_rows(self._generation.table, filters)
        rows[numbers_of(places["row"])[matching_rows(places, filters)]] = True
        matched: Mask = rows & self._readable
        return matched

    def mask(self, rows: Sequence[int]) -> Mask:
        mask = np.zeros(len(self._generation), dtype=np.bool_)
        mask[self._allowed(rows)] = True
        return mask

    def vectors(self, rows: Sequence[int]) -> NDArray[np.float32]:
        self._allowed(rows)
        return self._generation.vectors(rows)

    def sentence_similarities(self, vector: Vector, rows: Sequence[int], texts: Sequence[str]) -> list[float | None]:
        self._allowed(rows)
        return self._generation.sentence_similarities(vector, rows, texts)

    def sentence_evidence(self, vector: Vector, rows: Sequence[int]) -> NDArray[np.float64]:
        self._allowed(rows)
        return self._generation.sentence_evidence(vector, rows)

    def page_means(self, scores: NDArray[np.float32], rows: Rows) -> NDArray[np.float64]:
        return self._generation.page_means(scores, self._allowed(rows), self._classes)

    def sample(self, most: int) -> Rows:
        return self._generation.sample(self._classes, most)

    def pages(self, rows: Rows) -> Rows:
        return self._generation.tree.pages(self._allowed(rows))

    def parents(self, rows: Rows) -> Rows:
        return self._generation.tree.parents(self._allowed(rows))

    def boilerplate(self, rows: Rows) -> Mask:
        return np.array(self._generation.values_of("is_boilerplate", self._allowed(rows).tolist()), dtype=np.bool_)

    def labels(self, rows: Rows) -> list[Sequence[str]]:
        return [values or () for values in self._generation.values_of("labels", self._allowed(rows).tolist())]

    def text_hashes(self, rows: Rows) -> list[str]:
        return self._generation.values_of("text_hash", self._allowed(rows).tolist())

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        self._allowed(rows)
        return self._generation.chunks(rows, self._classes)

    def chunk_ids(self, rows: Sequence[int]) -> list[str]:
        self._allowed(rows)
        return self._generation.ids_of(rows)

    def indexed_text(self, row: int) -> str:
        self._allowed([row])
        return self._generation.wordings([row])[0]

    def row_of(self, chunk_id: str) -> int | None:
        row = self._generation.row_of(chunk_id)
        return row if row is not None and self._readable[row] else None

    def rows_of_passage(self, passage_id: str) -> list[int]:
        rows = self._generation.reading_order.of_passage(passage_id)
        return [int(row) for row in rows if self._readable[row]]

    def reading_ranks(self, rows: Rows) -> Rows:
        return self._generation.reading_order.ranks(self._allowed(rows), self._readable)

    def around(self, row: int, before: int = 1, after: int = 1) -> tuple[list[Chunk], list[Chunk]]:
        self._allowed([row])
        sides = self._generation.reading_order.around(row, before, after, self._readable)
        earlier, later = (self.chunks(rows.tolist()) for rows in sides)
        return earlier, later

    def beside(self, chunk: Chunk, direction: int) -> Chunk | None:
        row = self.row_of(f"{chunk.page_id}:{chunk.version}:{chunk.chunk_idx + direction}")
        return None if row is None else self.chunks([row])[0]

    def duplicates_of_page(self, page_id: str) -> list[DroppedPassage]:
        return self._generation.contents.duplicates_of(page_id, self._classes, self._readable)

    def original(self, page_id: str) -> Original | None:
        original = self._generation.originals.get(page_id)
        if original is None:
            return None
        readers = self._generation.readers_of_page(page_id)
        return original if readers and readers <= self._classes else None

    def facets(self) -> Facets:
        return self._generation.contents.facets(self._classes, self._readable)

    def has_page(self, page_id: str) -> bool:
        return not self._classes.isdisjoint(self._generation.readers_of_page(page_id))

    def page_rows(self, page_id: str) -> Rows:
        rows = self._generation.rows_of_page(page_id)
        rows = rows[self._readable[rows]]
        return rows[np.argsort(self._generation.tree.places(rows), kind="stable")]

    def page_text(self, page_id: str) -> str:
        return self._generation.page_text(page_id, self._classes)

    def narrowed(self, tables: SetTables) -> GenerationView:
        """Return a view as if there were no pages but those of some tables, which are of this view."""
        pages = tables.pages["page_id"].to_pylist()
        return GenerationView(self._generation.narrowed(pages), self._classes, self._satisfied, tables)

    def set_tables(self, among: Collection[str] | None = None) -> SetTables | None:
        if self._tables and among is None:
            return self._tables
        sets = self._generation.sets
        classes = self._satisfied(sets.classes)
        return sets.of(classes) if among is None else sets.among(classes, among)

    def _allowed(self, rows: Rows | Sequence[int]) -> Rows:
        """Return the rows.

        Raises:
            HiddenRowError: one of them is hidden from the reader.
        """
        numbers = np.asarray(rows, dtype=np.int64)
        if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= len(self._readable)):
            raise HiddenRowError("a stage asked for a passage that is not there")
        if not self._readable[numbers].all():
            raise HiddenRowError("a stage asked for a passage that its reader may not see")
        return numbers

    def _rows_with(self, terms: Iterable[str]) -> Rows:
        return self._generation.rows_with(terms, self._classes)

    def _spellings(self, stem: str) -> Iterator[str]:
        """Yield the lower-case words with this stem in the first passages that contain it."""
        for text in self._generation.wordings(self._rows_with([stem])[:_SHOWING].tolist()):
            words = re.findall(rf"\b{stem[0]}[a-z]*", text.lower())
            yield from (word for word, its in zip(words, stems(words), strict=True) if its == stem)
