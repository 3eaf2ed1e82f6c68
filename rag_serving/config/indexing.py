"""The section `indexing` of `config/app.yaml`.

Belongs here: what may be set of generations and shards. Does not belong here: the other sections (`sections`).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from rag_serving.config.sources import Section

DenseSearch = Literal["auto", "exact", "chroma"]
SentenceVectors = Literal["auto", "always", "never"]


class Indexing(Section):
    """Generations and shards."""

    dense_search: DenseSearch = "auto"
    """auto: exact up to a million readable chunks, then Chroma. auto: an exact search while the caller may read at most
    a million chunks, because that is faster than Chroma there and misses nothing; above that, Chroma's index if the
    generation has one. exact: always an exact search. chroma: always Chroma's index, and an exact search only while it
    cannot answer (`citelock doctor` says why) or if filters narrow a question. Generations of up to `max_graph_chunks`
    chunks always have Chroma's index, so that a change of this key needs no build; larger ones have it only with
    chroma."""
    sentence_vectors: SentenceVectors = "auto"
    """When vectors of all sentences are made at publication. They about double what is embedded, once for every
    different sentence, and add 400 bytes for each to the generation. auto: where the embedding model runs in this
    process (`embedding.provider: local`). always: also where a server embeds. never: the few sentences that an answer
    is chosen from are embedded while somebody waits."""
    max_shard_chunks: ClassVar[int] = 50_000  # chunks a dense shard holds at most
    max_graph_chunks: int = Field(250_000, ge=0)
    """Chunks up to which Chroma's index is built. A larger one is searched exactly: in 36 ms for a million chunks on
    two cores. Building Chroma's index of a million chunks takes some 20 minutes."""
    max_part_chunks: int = Field(250_000, ge=16)
    """Chunks of one set of files. A larger one is stored in parts of at most so many chunks (a page is never divided).
    Each part has its own chunk table, vectors and codes; an object store gets only parts whose pages changed. A part's
    texts may take 2 GiB."""
    keep_generations: int = Field(5, ge=1)
    """Generations kept for rollback, the published one included."""
    min_ann_recall: ClassVar[float] = 0.95  # recall@10 of the dense index that publishing needs
    memory_bytes: int = Field(1 << 30, ge=0)
    """Bytes of a generation held in memory; those beyond are memory-mapped, the largest first. What is in memory
    answers on, whatever becomes of the file. A mapped file that is written to is noticed at the next question, but one
    that is truncated while a question reads it ends the process: let nothing write there. 100,000 chunks of 384
    dimensions take 0.7 GB, 0.25 of it for their sentences, twice that while a newer generation is being opened."""
    chroma_url: str | None = None
    """Address of a Chroma server; null: embedded, under the tenant's folder."""
