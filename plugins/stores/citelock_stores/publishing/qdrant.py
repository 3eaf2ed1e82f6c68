"""Publishing a checked generation in Qdrant: its points, sending and comparing them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from citelock_stores.publishing.tables import (
    chunk_table,
    classes_of_chunks,
    original_files,
    original_table,
    place_table,
    seal_blocks,
)
from citelock_stores.qdrant import filters
from citelock_stores.qdrant.connection import RepeatedRequests
from citelock_stores.qdrant.filters import GENERATION, POINT, TENANT
from citelock_stores.qdrant.points import (
    BOOK_FIELDS,
    DENSE,
    FORMAT,
    HNSW_EF_CONSTRUCT,
    HNSW_M,
    KEYWORD_FIELDS,
    SPARSE,
    WINDOWS,
    ManifestPayload,
    number_of,
    payload_of,
    point_id,
    text_of,
)
from citelock_stores.qdrant.reader import pack_terms
from citelock_stores.qdrant.store import QdrantAlias
from citelock_stores.remote.protocol import DIGEST_BYTES, TEXT_COLUMNS, PostingKind
from rag_serving.artifacts.columns import take_rows
from rag_serving.artifacts.manifest import FILE as MANIFEST_FILE
from rag_serving.artifacts.store import Store, read_text
from rag_serving.config.loading import Config
from rag_serving.indexes import exact
from rag_serving.indexes.databases import RemoteDataError, RemoteError, newest_pages
from rag_serving.indexes.generation import GenerationFiles, read_files
from rag_serving.indexes.sentence_vectors import record_type

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


PIECE = 512 << 10
"""Bytes of an original in one point."""
BATCH = 100
LISTED = 10_000
"""Ids of one answer."""
PROBES, NEAREST = 16, 10
SAME = 1e-5  # difference of cosines that count as equal
LEFT_READABLE = timedelta(hours=1)  # for questions that still read a generation that the alias left
_WARN = 0.8  # of a quota
_TERMS = 20_000  # of a vocabulary in one point

_log = logging.getLogger(__name__)

Counts = Mapping[int, int]  # occurrences of a term, by row of the chunk


class RawPoint(NamedTuple):
    """A point without its id: its payload, and its vectors by name."""

    payload: dict[str, Any]
    vectors: dict[str, Any]


NumberedPoint = tuple[int, RawPoint]


class TermCounts(NamedTuple):
    """The terms of each chunk: by chunk, the numbers of its terms and their counts."""

    terms: Sequence[str]
    starts: NDArray[np.int64]  # [chunks + 1]
    numbers: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, terms: Sequence[str], starts: Any, rows: Any, counts: Any, chunks: int) -> TermCounts:
        """Return the counts of a list of rows for every term: those of term n begin at `starts[n]`."""
        order = np.argsort(rows, kind="stable")
        numbers = np.repeat(np.arange(len(terms), dtype=np.int64), np.diff(starts))
        borders = np.zeros(chunks + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=chunks), out=borders[1:])
        return cls(terms, borders, numbers[order], np.asarray(counts, np.int64)[order])

    def of_chunk(self, row: int) -> dict[str, list[Any]]:
        """Return a chunk's sparse vector."""
        part = slice(self.starts[row], self.starts[row + 1])
        return {"indices": self.numbers[part].tolist(), "values": self.counts[part].astype(float).tolist()}


class QdrantPoints:
    """The points of one generation in Qdrant, made on demand."""

    batch_sizes: ClassVar = {"piece": 20, "seal": 20}  # some 14 MB, where a server takes 32 MB

    def __init__(self, files: GenerationFiles, folder: Path, home: Path) -> None:
        """`files` were read from `folder`, and so compared with the manifest; the secret of `home` seals them."""
        self.files, self._folder, self._home = files, folder, home
        self.manifest, self._table = files.manifest, files.table
        self.chunks = len(files.table)
        contents = {each.sha256: each for each in files.originals.values()}
        self._content = lru_cache(maxsize=1)(lambda sha256: contents[sha256].read())

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """The number of points of each kind but the manifest."""
        rows, pieces = self._rows, len(self._pieces)
        before = {"chunk": self.chunks, "place": len(rows["place"]), "original": len(rows["original"])}
        return {**before, "piece": pieces, "terms": len(rows["terms"]), "seal": len(rows["seal"])}

    @cached_property
    def size(self) -> int:
        """The stored size, in bytes: vectors, texts and other columns, counts of terms, sentences, files."""
        postings = sum(len(counts.numbers) for counts in self.term_counts.values())
        sentences = len(self.files.sentences or ()) * record_type(self.manifest.embedder.dimension).itemsize
        vectors = 4 * self.manifest.vector_count * self.manifest.embedder.dimension
        digests = DIGEST_BYTES * self.chunks
        encoded = (sentences + self.original_bytes + digests) * 4 // 3
        return int(vectors + self._chunks.nbytes + 8 * postings + encoded)

    @property
    def has_windows(self) -> bool:
        """Return whether a chunk may have several vectors."""
        return self.files.vectors.windows is not None

    @property
    def is_book(self) -> bool:
        """Whether passages of books are among the chunks."""
        column = self._table["passage_id"]
        return bool(column.null_count < len(column))

    def of(self, kind: str, numbers: Sequence[int]) -> Iterator[RawPoint]:
        """Yield the points of a kind with some numbers."""
        owner = {TENANT: self.manifest.tenant, GENERATION: self.manifest.id, POINT: kind}
        makers = {"chunk": self._chunk_points, "piece": self._piece_points}
        rows = self._rows.get(kind, [])
        plain = (RawPoint(rows[number], {}) for number in numbers)
        for point in makers[kind](numbers) if kind in makers else plain:
            yield RawPoint(payload_of({**point.payload, **owner}), point.vectors)

    def manifest_payload(self, complete: bool) -> dict[str, Any]:
        """Return the payload of the point that describes the generation."""
        described = ManifestPayload(
            format=FORMAT,
            content=text_of(read_text(self._folder / MANIFEST_FILE).encode()),
            created_at=self.manifest.created_at,
            newest=newest_pages(self._table),
            classes=tuple(sorted(self.classes)),
            points={**self.counts},
            windows=self.has_windows,
            vectors=self.manifest.vector_count,
            bytes=self.size,
            complete=complete,
        )
        owner = {TENANT: self.manifest.tenant, GENERATION: self.manifest.id, POINT: "manifest"}
        return {**described.model_dump(mode="json"), **owner}

    @cached_property
    def classes(self) -> frozenset[str]:
        """The reader classes of chunks, places and originals."""
        chunks = pc.unique(self._table["readers"]).to_pylist()
        places = pc.unique(place_table(self.files)["readers"]).to_pylist()
        return frozenset({*chunks, *places, *(row["readers"] for row in self._originals)})

    @cached_property
    def original_bytes(self) -> int:
        """Bytes of the files of pages, each once."""
        return sum({row["sha256"]: row["bytes"] for row in self._originals}.values())

    @cached_property
    def term_counts(self) -> dict[PostingKind, TermCounts]:
        """The postings of both kinds."""
        words, starts, rows = self.files.keywords.content_postings()
        ones = np.ones(len(rows), np.int64)
        return {
            "lexical": TermCounts.of(*self.files.lexical.postings(), chunks=self.chunks),
            "keyword": TermCounts.of(words, starts, rows, ones, chunks=self.chunks),
        }

    def _chunk_points(self, numbers: Sequence[int]) -> Iterator[RawPoint]:
        rows = take_rows(self._chunks, np.array(numbers, np.int64)).to_pylist()
        for row, values in zip(numbers, rows, strict=True):
            values["page"] = values["page_order"] if values["passage_id"] else None
            if self.files.sentences is not None and len(records := self.files.sentences.records_of(row)):
                values["records"] = records.tobytes()
            yield RawPoint(values, self._vectors(row))

    def _vectors(self, row: int) -> dict[str, Any]:
        sparse = {SPARSE[kind]: counts.of_chunk(row) for kind, counts in self.term_counts.items()}
        table = self.files.vectors
        if table.windows is None:
            return {DENSE: table.vectors[row].tolist(), **sparse}
        places, _ = table.windows.places(np.array([row], np.int64))
        return {WINDOWS: table.vectors[places].tolist(), **sparse}

    def _piece_points(self, numbers: Sequence[int]) -> Iterator[RawPoint]:
        for number in numbers:
            sha256, place, readers = self._pieces[number]
            content = self._content(sha256)[place * PIECE : (place + 1) * PIECE]
            yield RawPoint({"sha256": sha256, "piece": place, "readers": readers, "bytes": content}, {})

    @cached_property
    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        """The payloads of points without vectors: in parts those of seals and of the vocabulary of a reader class."""
        seals = [block.table.to_pylist()[0] for block in seal_blocks(self.files, self._home)]
        places = place_table(self.files).to_pylist()
        return {"place": places, "original": self._originals, "terms": [*self._vocabularies()], "seal": seals}

    @cached_property
    def _originals(self) -> list[dict[str, Any]]:
        """The files of pages, each for readers of all of its page."""
        files = original_files(self.files)
        rows = original_table(files).to_pylist()
        return [{**row, "readers": file.readers} for row, file in zip(rows, files, strict=True)]

    @cached_property
    def _pieces(self) -> list[tuple[str, int, list[str]]]:
        """Digest, place and reader classes of every part of a file; a file shared by pages is listed once."""
        files: dict[str, tuple[int, set[str]]] = {}
        for row in self._originals:
            files.setdefault(row["sha256"], (row["bytes"], set()))[1].add(row["readers"])
        return [
            (sha256, place, sorted(readers))
            for sha256, (size, readers) in sorted(files.items())
            for place in range(max(1, -(-size // PIECE)))
        ]

    @cached_property
    def _chunks(self) -> pa.Table:
        texts = self._table.select(TEXT_COLUMNS)
        table = chunk_table(self.files)
        return pa.table([*table.columns, *texts.columns], names=[*table.column_names, *texts.column_names])

    def _vocabularies(self) -> Iterator[dict[str, Any]]:
        names, codes = classes_of_chunks(self.files)
        for kind, counts in self.term_counts.items():
            classes = np.repeat(codes.astype(np.int64), np.diff(counts.starts))
            keys, chunks = np.unique(classes * len(counts.terms) + counts.numbers, return_counts=True)
            for number, readers in enumerate(names):
                first, last = np.searchsorted(keys, [number * len(counts.terms), (number + 1) * len(counts.terms)])
                for start in range(int(first), int(last), _TERMS):
                    part = slice(start, min(start + _TERMS, int(last)))
                    numbers = (keys[part] - number * len(counts.terms)).tolist()
                    spelt = [counts.terms[each] for each in numbers]
                    packed = pack_terms(spelt, numbers, chunks[part].tolist())
                    yield {"posting": kind, "readers": readers, "packed": packed}


@dataclass(frozen=True)
class Uploaded:
    """The result of an upload. `present`: points that were there already; `repeats`: requests that were sent again."""

    points: int
    batches: int
    present: int
    repeats: int
    seconds: float


class QdrantUpload:
    """The upload of one generation to its collection, and its comparison there."""

    def __init__(self, requests: RepeatedRequests, collection: str, points: QdrantPoints, config: Config) -> None:
        self.collection = collection
        self._requests, self._points, self._config = requests, points, config
        self._name = points.manifest.tenant, points.manifest.id

    def send(self, progress: Callable[[int, int], None] | None = None, resend: bool = False) -> Uploaded:
        """Send every missing point; `resend`: also replace existing ones. `progress` receives (points, all points).
        Raises RemoteError: the server does not take them."""
        began = time.monotonic()
        self._ensure_collection()
        if not self._present("manifest"):  # one that is published already stays whole while it is mended
            self._put("manifest", [(0, RawPoint(self._points.manifest_payload(complete=False), {}))])
        sent, batches, everything = 0, 0, sum(self._points.counts.values())
        present = {kind: set[int]() if resend else self._present(kind) for kind in self._points.counts}
        done = sum(len(numbers) for numbers in present.values())
        for kind, count in self._points.counts.items():
            size = self._points.batch_sizes.get(kind, BATCH)
            missing = [number for number in range(count) if number not in present[kind]]
            for start in range(0, len(missing), size):
                numbers = missing[start : start + size]
                self._put(kind, [*zip(numbers, self._points.of(kind, numbers), strict=True)])
                sent, batches = sent + len(numbers), batches + 1
                if progress:
                    progress(done + sent, everything)
        self._finish(began)
        return Uploaded(sent, batches, done, self._requests.repeats, time.monotonic() - began)

    def complete(self) -> None:
        """Mark the generation as complete."""
        self._put("manifest", [(0, RawPoint(self._points.manifest_payload(complete=True), {}))])

    def check(self) -> float:
        """Return recall@10 of sample queries, 0 to 1, after verifying that every kind of point has its count, and that
        chunks are found by their vectors and terms. Raises RemoteDataError: something is missing, or recall is too
        low."""
        where = f"collection {self.collection} is not as generation {self._points.manifest.id} was sent"
        for kind, expected in self._points.counts.items():
            narrowed = filters.unread(*self._name, kind)
            answer = self._requests.ask(
                lambda client, which=narrowed: client.count(self.collection, count_filter=which, exact=True)  # type: ignore[misc]
            )
            if (found := answer.count) != expected:
                raise RemoteDataError(
                    f"{where}: {found} of {expected} points of kind {kind}; `citelock generations repair` sends it "
                    "again"
                )
        if not self._points.chunks:
            return 1.0
        for term, there, sent in (each for name in ("lexical", "keyword") for each in self._terms(name)):
            if there != sent:
                raise RemoteDataError(
                    f"{where}: chunks with {term!r} differ; `citelock generations repair` sends it again"
                )
        recall, least = self._recall(), self._config.indexing.min_ann_recall
        if recall < least:
            raise RemoteDataError(f"{where}: recall@10 of sample queries is {recall:.3f}, {least} is needed")
        return recall

    def _recall(self) -> float:
        """Return the share of the nearest chunks that searches find; one as near as the last of them is as good."""
        table, chunks = self._points.files.vectors, self._points.chunks
        rows = np.unique(np.linspace(0, chunks - 1, PROBES).astype(np.int64))
        queries = table.mean(rows)
        hits = 0
        for query, answer in zip(queries, self._nearest(queries), strict=True):
            nearest = exact.search(table, query, NEAREST)
            similarities = exact.similarities(table, query, np.array(answer, np.int64))
            hits += min(len(nearest), int(np.count_nonzero(similarities >= nearest[-1].score - SAME)))
        return hits / (len(rows) * min(NEAREST, chunks))

    def _ensure_collection(self) -> None:
        if not self._requests.ask(lambda client: client.collection_exists(self.collection)):
            try:
                self._requests.ask(self._create)
            except RemoteDataError:  # another publisher, or an earlier try of ours, made it meanwhile
                if not self._requests.ask(lambda client: client.collection_exists(self.collection)):
                    raise
        info = self._requests.ask(lambda client: client.get_collection(self.collection))
        vectors = info.config.params.vectors
        params = vectors.get(DENSE) if isinstance(vectors, dict) else None
        dimension, found = self._points.manifest.embedder.dimension, params.size if params else None
        if found != dimension:
            raise RemoteDataError(
                f"collection {self.collection} has vectors of {found} dimensions, generation {self._name[1]} of "
                f"{dimension}; give index.collection another name"
            )
        self._index_fields(frozenset(info.payload_schema))

    def _create(self, client: QdrantClient) -> bool:
        from qdrant_client import models

        size, cosine = self._points.manifest.embedder.dimension, models.Distance.COSINE
        several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        return client.create_collection(
            self.collection,
            vectors_config={
                DENSE: models.VectorParams(size=size, distance=cosine),
                WINDOWS: models.VectorParams(size=size, distance=cosine, multivector_config=several),
            },
            sparse_vectors_config={name: models.SparseVectorParams() for name in SPARSE.values()},
            hnsw_config=models.HnswConfigDiff(m=HNSW_M, ef_construct=HNSW_EF_CONSTRUCT),
            on_disk_payload=True,
        )

    def _index_fields(self, indexed: frozenset[str]) -> None:
        from qdrant_client.models import KeywordIndexParams, KeywordIndexType

        schemas: dict[str, Any] = {TENANT: KeywordIndexParams(type=KeywordIndexType.KEYWORD, is_tenant=True)}
        schemas |= dict.fromkeys(KEYWORD_FIELDS, "keyword")
        if self._points.is_book:
            schemas |= BOOK_FIELDS
        for field, schema in schemas.items():
            if field not in indexed:
                self._requests.ask(
                    lambda client, name=field, kind=schema: client.create_payload_index(  # type: ignore[misc]
                        self.collection, name, field_schema=kind, wait=True
                    )
                )

    def _present(self, kind: str) -> set[int]:
        narrowed, numbers, offset = filters.unread(*self._name, kind), set[int](), None
        while True:
            records, offset = self._requests.ask(
                lambda client, start=offset: client.scroll(  # type: ignore[misc]
                    self.collection, scroll_filter=narrowed, limit=LISTED, offset=start, with_payload=False
                )
            )
            numbers |= {number_of(record.id) for record in records}
            if offset is None:
                return numbers

    def _put(self, kind: str, points: Sequence[NumberedPoint]) -> None:
        from qdrant_client.models import PointStruct

        batch = [
            PointStruct(id=point_id(*self._name, kind, number), payload=point.payload, vector=point.vectors)
            for number, point in points
        ]
        self._requests.ask(lambda client: client.upsert(self.collection, points=batch, wait=True))

    def _finish(self, began: float) -> None:
        """Wait until the server has indexed the points; searches are right before, only slower."""
        pause_s = 0.02
        while time.monotonic() - began < self._config.index.publish_timeout_s:
            if self._requests.ask(lambda client: client.get_collection(self.collection)).status != "yellow":
                return
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    def _nearest(self, queries: NDArray[np.float32]) -> Sequence[Sequence[int]]:
        from qdrant_client.models import SearchParams

        using = WINDOWS if self._points.has_windows else DENSE
        searches = [(using, query.tolist(), NEAREST) for query in queries]
        answers = self._searched(searches, SearchParams(hnsw_ef=self._config.index.ef_search))
        return [[number_of(point.id) for point in answer] for answer in answers]

    def _terms(self, kind: PostingKind) -> Iterator[tuple[str, Counts, Counts]]:
        from qdrant_client.models import SparseVector

        counts, chunks = self._points.term_counts[kind], self._points.chunks
        spread = np.linspace(0, len(counts.terms) - 1, PROBES) if counts.terms else ()
        terms = sorted({round(number) for number in spread})
        searches = [(SPARSE[kind], SparseVector(indices=[term], values=[1.0]), chunks) for term in terms]
        answers = self._searched(searches, None) if searches else []
        owners = np.repeat(np.arange(chunks), np.diff(counts.starts))
        for term, answer in zip(terms, answers, strict=True):
            which = counts.numbers == term
            sent = dict(zip(owners[which].tolist(), counts.counts[which].tolist(), strict=True))
            yield counts.terms[term], {number_of(point.id): round(point.score) for point in answer}, sent

    def _searched(self, searches: list[tuple[str, Any, int]], params: Any) -> list[list[Any]]:
        from qdrant_client.models import QueryRequest

        narrowed = filters.unread(*self._name, "chunk")
        batch = [
            QueryRequest(query=query, using=using, filter=narrowed, limit=limit, params=params, with_payload=False)
            for using, query, limit in searches
        ]
        responses = self._requests.ask(lambda client: client.query_batch_points(self.collection, requests=batch))
        return [list(response.points) for response in responses]


class QuotaError(RemoteError):
    """A generation does not fit into the configured quota; the message says how to mend it."""


@dataclass(frozen=True)
class QdrantPublication:
    """The result of a publication. `recall`: of sample queries, 0 to 1; `quota`: the used part of it; `warning`: for an
    operator; empty without."""

    generation: str
    previous: str | None
    uploaded: Uploaded
    recall: float
    removed: tuple[str, ...]
    quota: str
    warning: str

    def figures(self) -> dict[str, int | float | str]:
        """Return its figures for people: numbers and short texts by name."""
        done = self.uploaded
        return {
            "points_sent": done.points,
            "points_present": done.present,
            "batches": done.batches,
            "requests_repeated": done.repeats,
            "seconds": round(done.seconds, 3),
            "sample_queries": PROBES,
            "sample_recall": round(self.recall, 4),
            "quota": self.quota or "none is configured",
            "warnings": self.warning or "none",
        }


class QdrantPublisher(QdrantAlias):
    """The generations of one tenant in a Qdrant server, for a holder of the tenant's lock (`Store.lock`)."""

    def __init__(self, store: Store, tenant: str, config: Config) -> None:
        super().__init__(config, tenant)
        self._store, self._config = store, config

    def publish(
        self, generation_id: str, progress: Callable[[int, int], None] | None = None, resend: bool = False
    ) -> QdrantPublication:
        """Send a generation, compare it, and let the tenant's alias name it. `progress` hears of (points, all points);
        `resend`: points that are there are sent, too. Raises StoreError: its folder is missing or damaged. Raises
        QuotaError: it does not fit; nothing was sent. Raises RemoteError: the server cannot take it; the alias is as it
        was."""
        files = read_files(self._store, self.tenant, generation_id, self._config.indexing.memory_bytes)
        points = QdrantPoints(files, self._store.generation(self.tenant, generation_id), self._config.home)
        removed = self.prune(also_keep=generation_id)
        quota, warning = self._check_quota(points)
        upload = QdrantUpload(self.requests, self.layout.collection(self.tenant, generation_id), points, self._config)
        uploaded = upload.send(progress, resend)
        recall = upload.check()
        upload.complete()
        previous = self.point_to(generation_id)
        return QdrantPublication(generation_id, previous, uploaded, recall, removed, quota, warning)

    def prune(self, also_keep: str | None = None) -> tuple[str, ...]:
        """Remove the remains of killed publications, and all but the last `keep_generations`; return their ids. A
        generation that the alias left stays for an hour, for its running questions."""
        stored, current = self.generations(), self.current()
        kept = {current, also_keep}
        now = datetime.now(UTC)
        whole = [each for each in stored if each.is_whole and each.id not in kept]
        for each in whole:
            if each.left_at is None:  # the alias left it, and the process was killed before recording that
                self.note_left(each.id, now)
        whole.sort(key=lambda each: each.left_at or now, reverse=True)
        doomed = [each for each in stored if each.id not in kept and not each.is_whole]
        beyond = whole[self._config.indexing.keep_generations - 1 :]
        doomed += [each for each in beyond if each.left_at and now - each.left_at >= LEFT_READABLE]
        for each in doomed:
            self.remove(each)
        return tuple(sorted(each.id for each in doomed))

    def _check_quota(self, points: QdrantPoints) -> tuple[str, str]:
        """Return the future use of the quota, and a warning if it is nearly used up; both empty without a quota. Raises
        QuotaError: it would be exceeded."""
        quota = self._config.index.quota_vectors
        if quota is None:
            return "", ""
        base = self.layout.base
        names = [name for name in self.collections() if name == base or name.startswith(f"{base}.")]
        everything = [each for name in names for each in self.in_collection(name, everybody=True)]
        others = [each.manifest for each in everything if each.manifest and each.id != points.manifest.id]
        used = sum(each.vectors for each in others) + points.manifest.vector_count
        share = f"{used:,} of {quota:,} vectors (index.quota_vectors)"
        if used > quota:
            raise QuotaError(
                f"generation {points.manifest.id} would take Qdrant to {share}; nothing was sent. Lower "
                "indexing.keep_generations, index fewer pages, or raise the quota"
            )
        if used < _WARN * quota:
            return share, ""
        warning = f"Qdrant holds {share} with generation {points.manifest.id}"
        _log.warning("%s", warning)
        return share, warning
