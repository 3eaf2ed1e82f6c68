"""Vectors of the sentences that answers are extracted from, made for a candidate: answering embeds none of them then.

Belongs here: which texts are embedded, each once, and the files that hold their vectors.
Does not belong here: what extraction compares (`rag_serving.answering`), the format (`rag_serving.indexes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_assets.publishing.arrange import in_order
from rag_assets.publishing.workspace import BuildWorkspace
from rag_assets.state.vector_cache import EmbeddedTexts, TextVectors
from rag_serving.answering.selection.statements import sentence_texts
from rag_serving.artifacts.manifest import EmbedderFacts
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.indexes.sentence_vectors import (
    SENTENCE_ROWS_FILE,
    SENTENCES_FILE,
    record_type,
    sentence_key,
)
from rag_serving.models.protocols import Embedder
from rag_serving.records.passages import Chunk

VERSION = 2
"""Raised when the same chunks would get vectors of other texts."""


@dataclass(frozen=True)
class SentencesPart:
    """Texts of sentences with the page that each stands on, how many came before them, how many there are in all."""

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
    """Return what embeds texts that the cache does not know, and tells how far it is among all."""

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

    `chunks`: GENERATION_CHUNKS in any order; `embed` gives the vectors of texts, as this model does.
    """
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
