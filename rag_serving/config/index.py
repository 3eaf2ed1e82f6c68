"""The section `index`: where published generations are searched: in their folders, or in a database.

Belongs here: keys, types, defaults. Does not belong here: what every generation is made of (`indexing`), acting on the
keys (`rag_serving.indexes`, `rag_assets.publishing`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from rag_serving.config.sources import Section

IndexKind = Literal["disk", "postgres", "qdrant", "opensearch"]
Halfvec = Literal["auto", "never"]
Collections = Literal["tenant", "shared"]
VectorEngine = Literal["faiss", "lucene"]
Compression = Literal["1x", "8x", "16x", "32x"]


class Index(Section):
    """The database of published generations, if not their folders: it refuses by itself what a caller may not read."""

    kind: IndexKind = "disk"
    """disk: the generation's folder. postgres: PostgreSQL with pgvector. qdrant: a Qdrant server.
    opensearch: OpenSearch 2.17 or later, for one tenant that is too large for the others."""
    url: str | None = None
    """Database that questions read: postgresql://citelock_app@host/name (password by PGPASSWORD or PGPASSFILE), or the
    address of the Qdrant or OpenSearch server. Its user owns nothing there and sees nothing without a signed claim."""
    writer_url: str | None = None
    """The same for the user that publishes (citelock_writer); only where generations are built."""
    owner_url: str | None = None
    """The same for the user that makes schema and roles; only for `citelock index migrate`."""
    connections: int = Field(8, ge=1, le=200)
    """Connections of one serving process."""
    statement_timeout_s: float = Field(10, gt=0, le=600)
    """Seconds that the database may take for one read of a question."""
    publish_timeout_s: float = Field(3600, ge=1, le=86_400)
    """Seconds that one step of a publication, such as making an index, may take."""
    tries: int = Field(6, ge=1, le=20)
    """Times that a publisher sends a request to Qdrant or OpenSearch while the server is busy or away."""
    cache_bytes: int = Field(256 << 20, ge=0)
    """Bytes of catalogs (ids, titles, places of what a reader may see) that a serving process keeps in memory."""
    partition_chunks: int = Field(2_000, ge=0)
    """A generation of as many chunks gets partitions of its own; smaller ones share some, separated by row policies."""
    ann_chunks: int = Field(20_000, ge=1)
    """A generation of as many chunks gets an HNSW index; smaller ones are searched exactly."""
    ef_search: int = Field(320, ge=80, le=1_000)
    """Candidates that a search of an HNSW index looks at: more find more, and take longer."""
    halfvec: Halfvec = "auto"
    """Half precision in the HNSW index, which takes half the space then; what it finds is compared again in full
    precision. auto: there. never: nowhere."""
    hybrid_weights: tuple[float, float] = (0.6, 0.4)
    """Weights of cosine similarity and text rank in the SQL function `search_chunks_hybrid`, which other programs may
    call. Questions are ranked as `retrieval` says, from the same candidates."""

    collection: str = Field("citelock", pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")
    """Qdrant, OpenSearch: name that all collections (indexes there) and aliases begin with, such as book-chunks."""
    collections: Collections = "tenant"
    """Qdrant: tenant: a collection for each generation of each tenant. shared: one for all, which filters divide.
    OpenSearch has the first alone."""
    api_key_env: str | None = None
    """Qdrant, OpenSearch: environment variable with the key that questions read with; a read-only one will do. For
    OpenSearch `user:password`, or a token without a colon, which is sent as a bearer's."""
    writer_key_env: str | None = None
    """The same for the key that publishes; null: that of `api_key_env`."""
    quota_vectors: int | None = Field(None, ge=1)
    """Qdrant, OpenSearch: vectors that all generations may have together; a publication warns from 80 % on and is
    refused beyond 100 %. null: no limit."""
    quota_bytes: int | None = Field(None, ge=1)
    """The same for the bytes of vectors and payloads, as they are sent."""

    ca_file: Path | None = None
    """OpenSearch: certificates (PEM) that its TLS certificate is checked against; null: those of the system."""
    engine: VectorEngine = "faiss"
    """OpenSearch: library that makes the HNSW graphs: faiss for large indexes, lucene for smaller ones."""
    compression: Compression = "1x"
    """OpenSearch: how much smaller vectors in memory are (`mode: on_disk` beyond 1x, by faiss alone); what is found is
    compared again in full precision."""
    shards: int = Field(1, ge=1, le=1024)
    """OpenSearch: primary shards of an index; some 10 to 30 GB each."""
    replicas: int = Field(1, ge=0, le=20)
    """OpenSearch: copies of each shard; 0 on a single node."""

    @model_validator(mode="after")
    def _has_an_address(self) -> Index:
        if self.kind != "disk" and not (self.url or self.writer_url or self.owner_url):
            raise ValueError(f"kind {self.kind} needs index.url, the address of the database (CITELOCK_INDEX__URL)")
        if self.kind == "opensearch" and self.collections == "shared":
            raise ValueError("index.collections shared is of Qdrant; OpenSearch has an index for each generation")
        if self.compression != "1x" and self.engine != "faiss":
            raise ValueError(f"index.compression {self.compression} needs index.engine faiss")
        return self
