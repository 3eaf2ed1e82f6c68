"""The sections `index` and `indexing`: what generations are made of, and where published ones are searched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from pydantic import Field, field_validator, model_validator

from rag_serving.config.sources import Section

SCHEMES = ("s3", "gs", "az", "file")
DEFAULT_CACHE = ".citelock"


class ObjectStore(Section):
    """The object store through which machines share their home. `home: s3://BUCKET/PREFIX` (also `gs://`, `az://`,
    `file://`) sets `url`; each machine keeps the files that it needs in `cache`. If the file has such an address and
    `CITELOCK_HOME` is a folder, as in the images, the address remains the home and the folder becomes `cache`, unless
    `cache` is set too. If `CITELOCK_OBJECT_STORE__URL` is set but empty as well, the folder is the home and no store is
    used. Credentials come from the provider's own variables, such as `AWS_ACCESS_KEY_ID`; `CITELOCK_SECRET` must be the
    same on all machines."""

    url: str | None = Field(None, pattern=rf"^({'|'.join(SCHEMES)})://\S+$")
    """Address of the home; null: the home is a folder of this machine."""
    cache: Path = Path(DEFAULT_CACHE)
    """Folder of this machine for what it builds or fetches."""
    cache_bytes: int = Field(0, ge=0)
    """Bytes above which a reading machine deletes unpublished generations. 0: no limit, and the published and the
    previous generation of each tenant are kept. Tenants that are no longer configured are deleted from `cache`."""
    # Seconds that a starting server waits for the store. After that it answers from that generation, flagged
    # `stale_generation`, until the store responds.
    start_wait_s: ClassVar[float] = 1
    endpoint: str | None = None
    """Address of an S3-compatible server; null: the provider's. Requests to an `http:` address are not encrypted."""
    timeout_s: ClassVar[float] = 30  # seconds that one request may take
    retry_s: ClassVar[float] = 60  # seconds for which a failing request is retried
    lease_s: ClassVar[float] = 30  # seconds without a heartbeat until another machine may take over a build's folder
    poll_s: ClassVar[float] = 2  # seconds between a server's checks for a new publication
    sweep_after: ClassVar[int] = 20  # builds after which objects no longer in force are deleted; 0: never
    parallel: ClassVar[int] = 8  # files sent or fetched at the same time


def where_home_is(settings: ObjectStore, folder: Path) -> str:
    """Return the address of a shared home and its folder on this machine, in one line."""
    why = " (CITELOCK_HOME)" if str(folder) == _given().get(_HOME) else ""
    return f"{settings.url}; its cache on this machine is {folder}{why}"


def with_object_store(content: Any) -> Any:
    """Return a configuration's content with an address under `home` moved to `object_store.url`, and one folder of this
    machine under both `home` and `object_store.cache`."""
    home = content.get("home") if isinstance(content, Mapping) else None
    if isinstance(home, str) and _is_address(home) and home.partition("://")[0] not in SCHEMES:
        raise ValueError(f"home: {home!r} is neither a folder nor one of {', '.join(f'{one}://' for one in SCHEMES)}")
    given = content.get("object_store") if isinstance(content, Mapping) else None
    given = {**given} if isinstance(given, Mapping) else {}
    url = home if _is_address(home) else given.get("url")
    if not url:
        return content
    folder = given.get("cache") or DEFAULT_CACHE
    if home and not _is_address(home) and str(folder) == DEFAULT_CACHE:
        folder = home
    # Chroma's files stay on the machine that made them: an exact search finds the same everywhere.
    indexing = content.get("indexing") or {}
    if isinstance(indexing, Mapping):
        indexing = {"dense_search": "exact", **indexing}
    return {**content, "home": folder, "object_store": {**given, "url": url, "cache": folder}, "indexing": indexing}


class HomeVariable:
    """Reads `CITELOCK_HOME` as the folder of a shared home, where the file names the home's address."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        """`content`: what the file says."""
        self._content = content

    def __call__(self) -> dict[str, Any]:
        """Return the keys that go before those of other variables."""
        given, own = _given(), self._content.get("object_store")
        own = own if isinstance(own, Mapping) else {}
        folder, url = given.get(_HOME), given.get(_URL)
        address = url or self._content.get("home")
        if not folder or _is_address(folder):
            return {}
        if url == "":
            return {"home": folder, "object_store": {"url": None}}
        if not _is_address(address):
            return {"home": own["cache"]} if own.get("url") and own.get("cache") else {}
        is_set = given.get(_CACHE) or own.get("cache")
        return {"home": address, **({} if is_set else {"object_store": {"cache": folder}})}


_HOME, _URL, _CACHE = "citelock_home", "citelock_object_store__url", "citelock_object_store__cache"


def _given() -> dict[str, str]:
    """Return the variables of the environment by their names in lower case, as the configuration reads them."""
    return {name.lower(): value for name, value in os.environ.items()}


def _is_address(home: Any) -> bool:
    return isinstance(home, str) and "://" in home


IndexKind = Literal["disk", "postgres", "qdrant"]
Halfvec = Literal["auto", "never"]
Collections = Literal["tenant", "shared"]
_WENT = f"gone with OpenSearch; index.kind is one of {', '.join(get_args(IndexKind))}"


class Index(Section):
    """The database that stores published generations instead of their folders, and enforces who may read what."""

    kind: IndexKind = "disk"
    """Where published generations are. disk: a folder. postgres: PostgreSQL with pgvector. qdrant: a Qdrant server."""
    url: str | None = None
    """Database that questions read. The PostgreSQL user owns nothing and sees nothing without a signed claim."""
    writer_url: str | None = None
    """The same for the user that publishes (citelock_writer); only on machines that build."""
    owner_url: str | None = None
    """The same for the user that creates schema and roles; only for `citelock index migrate`."""
    connections: ClassVar[int] = 8  # of one serving process
    statement_timeout_s: ClassVar[float] = 10  # seconds of one read of a question
    publish_timeout_s: ClassVar[float] = 3600  # seconds of one step of a publication: HNSW indexes take long
    tries: ClassVar[int] = 6  # attempts while Qdrant is busy or unreachable
    cache_bytes: ClassVar[int] = 256 << 20  # bytes of catalogs that a serving process holds
    # Chunks from which a generation has its own partitions; smaller ones share partitions and are separated by row
    # policies.
    partition_chunks: ClassVar[int] = 2_000
    ann_chunks: int = Field(20_000, ge=1)
    """Chunks from which a generation gets an HNSW index; smaller ones are searched exactly."""
    ef_search: ClassVar[int] = 320  # candidates of an HNSW search; pgvector takes 1,000 at most
    # Half precision in the HNSW index, which halves its size; candidates are compared again in full precision.
    # auto: in the HNSW index. never: nowhere.
    halfvec: ClassVar[Halfvec] = "auto"
    hybrid_weights: tuple[float, float] = (0.6, 0.4)
    """Weights in the SQL function `search_chunks_hybrid`. Citelock ranks the same candidates as `retrieval` says."""

    collection: str = Field("citelock", pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")
    """Qdrant: prefix of collections and aliases."""
    collections: Collections = "tenant"
    """Qdrant: a collection for each generation, or one for all. shared: one for all, separated by filters."""
    api_key_env: str | None = None
    """Qdrant: environment variable with the key for questions; a read-only key is enough."""
    writer_key_env: str | None = None
    """The same for the key for publishing; null: that of `api_key_env`."""
    quota_vectors: int | None = Field(None, ge=1)
    """Qdrant: most vectors of all generations; a publication warns from 80 % on and is refused beyond 100 %. null:
    no limit."""

    gone: ClassVar = {
        **dict.fromkeys(("ca_file", "compression", "engine", "replicas", "shards"), _WENT),
        "quota_bytes": "a limit of vectors: index.quota_vectors",
    }

    @field_validator("kind", mode="before")
    @classmethod
    def _is_still_there(cls, given: Any) -> Any:
        if given == "opensearch":
            raise ValueError(_WENT)
        return given

    @model_validator(mode="after")
    def _has_an_address(self) -> Index:
        if self.kind != "disk" and not (self.url or self.writer_url or self.owner_url):
            raise ValueError(f"kind {self.kind} needs index.url, the address of the database (CITELOCK_INDEX__URL)")
        return self


DenseSearch = Literal["auto", "exact", "chroma"]
SentenceVectors = Literal["auto", "always", "never"]


class Indexing(Section):
    """Generations and shards."""

    dense_search: DenseSearch = "auto"
    """auto: exact up to a million readable chunks, then Chroma. auto: an exact search while the caller may read at most
    a million chunks, because that is faster than Chroma there and misses nothing; above that, Chroma's index if the
    generation has one: those of up to 250,000 chunks. exact: always an exact search, and Chroma's index is not built.
    chroma: always Chroma's index, whatever its size, and an exact search only while it cannot answer (`citelock doctor`
    says why) or if filters narrow a question."""
    sentence_vectors: SentenceVectors = "auto"
    """When vectors of all sentences are made at publication. They about double what is embedded, once for every
    different sentence, and add 400 bytes for each to the generation. auto: where the embedding model runs in this
    process (`embedding.provider: local`). always: also where a server embeds. never: the few sentences that an answer
    is chosen from are embedded while somebody waits."""
    max_shard_chunks: ClassVar[int] = 50_000  # chunks a dense shard holds at most
    # Chunks up to which Chroma's index is built unless `dense_search` says chroma. A larger one is searched exactly: in
    # 36 ms for a million chunks on two cores, where building Chroma's index takes some 20 minutes.
    max_graph_chunks: ClassVar[int] = 250_000
    # Chunks of one set of files. A larger one is stored in parts of at most so many chunks (a page is never divided).
    # Each part has its own chunk table, vectors and codes; an object store gets only parts whose pages changed. The
    # texts of a part may take 2 GiB, 8,590 bytes a chunk.
    max_part_chunks: ClassVar[int] = 250_000
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

    @property
    def graph_chunks(self) -> int:
        """Chunks up to which Chroma's index is built beside an exact search."""
        return 0 if self.dense_search == "exact" else self.max_graph_chunks
