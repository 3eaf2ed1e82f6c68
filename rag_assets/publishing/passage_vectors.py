"""The vectors of passages and of the sentences that answers are extracted from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_assets.publishing.arrange import in_order
from rag_assets.publishing.workspace import BuildWorkspace
from rag_assets.state.content_cache import EmbeddedTexts, Progress, TextVectors
from rag_assets.steps.contexts.contextualize import embedded_windows, with_vector_keys
from rag_serving.answering.selection.statements import sentence_texts
from rag_serving.artifacts.manifest import EmbedderFacts
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.config.models import Embedding
from rag_serving.hooks import TenantBudget
from rag_serving.indexes.exact import JoinedVectors, Vectors, WindowMap, window_counts
from rag_serving.indexes.sentence_vectors import SENTENCE_ROWS_FILE, SENTENCES_FILE, record_type, sentence_key
from rag_serving.models.embedding.factory import TokenCount
from rag_serving.models.protocols import Embedder, InputLimit
from rag_serving.models.protocols import Progress as TextProgress
from rag_serving.records.passages import Chunk

VERSION = 2
"""Raised when the same chunks would get vectors of other texts."""


@dataclass(frozen=True)
class SentencesPart:
    """Texts of sentences with the page of each, the number before them, and the number in all."""

    texts: Sequence[str]
    pages: Sequence[str]
    before: int
    total: int


Embed = Callable[[SentencesPart], EmbeddedTexts]
_LEVELS = 127  # a byte's, on either side of nothing
_BLOCK = 8192  # texts whose vectors are in memory at once
_FIELDS = ["chunk_id", "page_id", "version", "chunk_idx", "space", "title", "heading_path", "anchor", "url", "text"]
_FIELDS += ["start", "end", "content_type", "is_boilerplate", "structure"]


@dataclass(frozen=True)
class SentencesBuild:
    """Count what the step made."""

    sentences: int = 0  # different texts
    embedded: int = 0  # of them; the others were known
    bytes: int = 0


def embedding_through(cache: TextVectors, embedder: Embedder, progress: Callable[[int, int], None]) -> Embed:
    """Return an embedder of the texts missing from the cache, which reports progress over all."""

    def embed(part: SentencesPart) -> EmbeddedTexts:
        def report(done: int, missing: int, _: float) -> None:
            progress(part.before + len(part.texts) - missing + done, part.total)

        return cache.embed(embedder, part.texts, report, part.pages)

    return embed


def wants_sentences(config: Config) -> bool:
    """Return whether vectors of sentences are stored: by default where the model runs in this process."""
    wanted = config.indexing.sentence_vectors
    return wanted == "always" or (wanted == "auto" and config.embedding.provider == "local")


def build_sentences(store: Store, tenant: str, chunks: pa.Table, embed: Embed, model: EmbedderFacts) -> SentencesBuild:
    """Leave the vectors of all sentences that the chunks can be answered with, by the chunks in a generation's order.
    `chunks`: GENERATION_CHUNKS in any order; `embed` gives the vectors of texts, as this model does."""
    table = in_order(chunks)
    with BuildWorkspace.of(store, tenant).sentences(table["chunk_id"].to_pylist(), model.name) as folder:
        return write_sentences(folder, table, embed, model)


def write_sentences(folder: Path, table: pa.Table, embed: Embed, model: EmbedderFacts) -> SentencesBuild:
    """Write both files for the chunks of a generation, GENERATION_CHUNKS in its order."""
    sentences: dict[int, tuple[str, str]] = {}  # text, and the first page that has it
    borders, members = [0], list[int]()
    for chunk in _chunks(table):
        own = {sentence_key(text): text for text in sentence_texts(chunk)}
        for key, text in own.items():
            sentences.setdefault(key, (text, chunk.page_id))
        members += own
        borders.append(len(members))
    keys = np.array(sorted(sentences), np.uint64)
    rows = np.searchsorted(keys, np.array(members, np.uint64)).astype(np.int64)
    embedded = _save(folder, keys, sentences, embed, model.dimension)
    with (folder / SENTENCE_ROWS_FILE).open("wb") as file:
        np.save(file, np.concatenate([np.array(borders, np.int64), rows]), allow_pickle=False)
    size = sum((folder / name).stat().st_size for name in (SENTENCES_FILE, SENTENCE_ROWS_FILE))
    return SentencesBuild(len(keys), embedded, size)


def _save(
    folder: Path, keys: NDArray[np.uint64], sentences: Mapping[int, tuple[str, str]], embed: Embed, dimension: int
) -> int:
    """Write the records by key, a block of vectors at a time; returns how many had to be embedded."""
    if not len(keys):
        with (folder / SENTENCES_FILE).open("wb") as file:
            np.save(file, np.empty(0, record_type(dimension)), allow_pickle=False)
        return 0
    computed = 0
    records = np.lib.format.open_memmap(folder / SENTENCES_FILE, "w+", record_type(dimension), (len(keys),))
    for start in range(0, len(keys), _BLOCK):
        part = keys[start : start + _BLOCK]
        texts, pages = zip(*(sentences[key] for key in part.tolist()), strict=True)
        embedded = embed(SentencesPart(texts, pages, start, len(keys)))
        records[start : start + _BLOCK] = encoded(part, embedded.vectors)
        computed += embedded.computed
    records.flush()
    return computed


def encoded(keys: NDArray[np.uint64], vectors: NDArray[np.float32]) -> NDArray[np.void]:
    """Return the records of sentences with vectors [n, d]."""
    records = np.empty(len(keys), record_type(vectors.shape[1]))
    largest = np.abs(vectors).max(axis=1, initial=0)
    codes = np.rint(vectors / np.where(largest > 0, largest, 1)[:, None] * _LEVELS).astype(np.int8)
    lengths = np.sqrt(np.einsum("ij,ij->i", codes, codes, dtype=np.float64))
    records["key"], records["code"] = keys, codes
    records["scale"] = 1 / np.where(lengths > 0, lengths, 1)
    return records


def _chunks(table: pa.Table) -> Iterator[Chunk]:
    for batch in table.select(_FIELDS).to_batches(max_chunksize=1024):
        for row in batch.to_pylist():
            yield Chunk(**{**row, "heading_path": tuple(row["heading_path"] or ())})


class BudgetedEmbedder:
    """An `Embedder` that stops when the budget is spent: its caller stores the vectors made before."""

    def __init__(self, embedder: Embedder, budget: TenantBudget, settings: Embedding) -> None:
        self._embedder, self._budget = embedder, budget
        self._count, self._price = TokenCount(settings), settings.prices.get(settings.model)

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed_documents(self, texts: Sequence[str], progress: TextProgress | None = None) -> NDArray[np.float32]:
        """Return the vectors of some texts. Raises BudgetError: no more may be embedded now; the
        model was not called."""
        self._budget.check()
        vectors = self._embedder.embed_documents(texts, progress)
        tokens = self._count(list(texts))
        self._budget.spend("embedding", tokens, self._price.of(tokens, 0) if self._price else 0.0)
        return vectors

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self._embedder.embed_query(text)

    def check(self) -> str:
        return self._embedder.check()


class EmbeddedPassages(NamedTuple):
    """Rows of GENERATION_CHUNKS that name their vectors, the vectors [vectors, d] in the order of the rows, and how
    many different texts there were, and had to be embedded."""

    chunks: pa.Table
    vectors: Vectors
    texts: int
    computed: int


def embed_passages(
    cache: TextVectors, embedder: Embedder, chunks: pa.Table, limit: InputLimit | None, progress: Progress | None = None
) -> EmbeddedPassages:
    """Return the vectors of rows of GENERATION_CHUNKS; each different text is embedded at most once. Raises ModelError:
    the model fails, is another than the cache's, or the cache cannot be written."""
    windows = embedded_windows(chunks, limit)
    pages = [
        page for page, texts in zip(chunks["page_id"].to_pylist(), windows, strict=True) for _ in range(len(texts))
    ]
    embedded = cache.embed(embedder, [*chain.from_iterable(windows)], progress, pages)
    borders = accumulate((len(texts) for texts in windows), initial=0)
    keys = [embedded.keys[begin:end] for begin, end in pairwise(borders)]
    return EmbeddedPassages(
        with_vector_keys(chunks, keys), embedded.vectors, len(set(embedded.keys)), embedded.computed
    )


def count_vectors(chunks: pa.Table) -> int:
    """Return how many vectors rows of GENERATION_CHUNKS name."""
    return int(window_counts(chunks["vector_keys"]).sum()) if len(chunks) else 0


def vectors_at(chunks: pa.Table, vectors: Vectors | JoinedVectors, rows: NDArray[np.int64]) -> Vectors:
    """Return the vectors of some rows, in the order of these rows; `vectors` are in the order of `chunks`."""
    places = WindowMap(window_counts(chunks["vector_keys"])).places(rows).vectors
    taken: Vectors = vectors[places]
    return taken
