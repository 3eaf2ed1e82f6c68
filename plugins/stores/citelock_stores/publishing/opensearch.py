"""Publishing a checked generation in OpenSearch: its documents, sending and comparing them.

Belongs here: fields and vectors of each kind of document, by number; what they take of a quota; requests.
Does not belong here: the order of a publication (`alias_publisher`), names and fields (`opensearch.filters`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from citelock_stores.opensearch import filters
from citelock_stores.opensearch.connection import counted, found, reason_of
from citelock_stores.opensearch.filters import CLASSES, DENSE, MOST, NUMBER, ROW, VECTOR, class_id, index_body
from citelock_stores.opensearch.reader import TermRows, graph_query, pack_postings, unpack_postings
from citelock_stores.opensearch.store import OpenSearchAlias
from citelock_stores.publishing.alias_publisher import (
    LISTED,
    NEAREST,
    PROBES,
    AliasPublisher,
    Counts,
    GenerationPoints,
    GenerationUpload,
    Maker,
    NumberedPoint,
    RawPoint,
)
from citelock_stores.publishing.tables import (
    CatalogBlock,
    blocks_by_class,
    catalog_blocks,
    classes_of_chunks,
    postings_of,
)
from citelock_stores.remote.protocol import PostingKind
from citelock_stores.remote.stored import READERS, pack_table, point_id, term_hash, text_of
from citelock_stores.remote.tables import REMOTE_TERMS, TEXT_COLUMNS
from rag_serving.artifacts.columns import take_rows
from rag_serving.escaping.redaction import redacted
from rag_serving.escaping.targets import one_line
from rag_serving.indexes.databases import BusyError, RemoteDataError, RemoteError
from rag_serving.indexes.sentence_vectors import record_type

_TOGETHER = 8_192  # postings of rare terms in one document
_MOST = 65_536  # rows of a common term in one document


class PostingGroup(NamedTuple):
    """The postings of one document: of one kind and reader class."""

    kind: PostingKind
    readers: str
    postings: list[TermRows]


class OpenSearchDocuments(GenerationPoints):
    """The documents of one generation, made on demand."""

    batch_sizes: ClassVar = {"piece": 10, "block": 10, "posting": 40}

    @cached_property
    def counts(self) -> Mapping[str, int]:
        return {
            "chunk": self.chunks,
            "window": self.manifest.vector_count if self.has_windows else 0,
            "block": len(self._blocks),
            "posting": len(self._groups),
            "piece": len(self._pieces),
        }

    @cached_property
    def size(self) -> int:
        """The approximate stored size, in bytes: vectors twice, texts, tables and postings as they are packed,
        sentences, files."""
        vectors = 4 * self.manifest.vector_count * self.manifest.embedder.dimension
        texts = self._table.select(TEXT_COLUMNS).nbytes
        tables = sum(block.table.nbytes for block in self._blocks)
        postings = sum(8 * len(each.rows) for group in self._groups for each in group.postings)
        sentences = len(self.files.sentences or ()) * record_type(self.manifest.embedder.dimension).itemsize
        return int(vectors + texts + (vectors + tables + postings + sentences + self.original_bytes) * 4 // 3)

    def of(self, kind: str, numbers: Sequence[int]) -> Iterator[RawPoint]:
        """Yield the documents of a kind with some numbers, each under the keys of its reader classes."""
        for number, point in zip(numbers, super().of(kind, numbers), strict=True):
            readers = point.payload[READERS]
            named = readers if isinstance(readers, list) else [readers]
            found_by = {CLASSES: [*map(class_id, named)], NUMBER: number}
            yield RawPoint({**point.payload, **found_by}, point.vectors)

    def sample(self, kind: PostingKind, every: int) -> Mapping[str, dict[int, int]]:
        """Return about so many terms of a kind, evenly spread: how often each chunk has them."""
        names = sorted({each.term for group in self._groups if group.kind == kind for each in group.postings})
        chosen = {names[round(number)] for number in np.linspace(0, len(names) - 1, every)} if names else set[str]()
        counts: dict[str, dict[int, int]] = {term: {} for term in sorted(chosen)}
        for group in self._groups:
            for each in group.postings if group.kind == kind else ():
                if each.term in counts:
                    ones = np.ones(len(each.rows), np.int32) if each.counts is None else each.counts
                    counts[each.term] |= dict(zip(each.rows.tolist(), ones.tolist(), strict=True))
        return counts

    def _makers(self) -> Mapping[str, Maker]:
        return {
            "chunk": self._chunk_points,
            "window": self._window_points,
            "block": lambda which: (self._block(number) for number in which),
            "posting": lambda which: (self._group(number) for number in which),
            "piece": self._piece_points,
        }

    def _chunk_points(self, numbers: Sequence[int]) -> Iterator[RawPoint]:
        names = [READERS, *TEXT_COLUMNS]
        rows = take_rows(self._table.select(names), np.array(numbers, np.int64)).to_pylist()
        for row, values in zip(numbers, rows, strict=True):
            values[ROW] = row
            if self.files.sentences is not None and len(records := self.files.sentences.records_of(row)):
                values["records"] = records.tobytes()
            yield RawPoint(values, {} if self.has_windows else self._vector(row))

    def _window_points(self, numbers: Sequence[int]) -> Iterator[RawPoint]:
        for number in numbers:
            row = int(self._window_rows[number])
            readers = self._classes_of_rows.names[int(self._classes_of_rows.of_rows[row])]
            yield RawPoint({ROW: row, READERS: readers}, self._vector(number))

    def _vector(self, place: int) -> dict[str, Any]:
        vector = np.asarray(self.files.vectors.vectors[place], np.float32)
        return {DENSE: vector.tolist(), VECTOR: text_of(vector.astype("<f4").tobytes())}

    def _block(self, number: int) -> RawPoint:
        block = self._blocks[number]
        return RawPoint({"block": block.kind, READERS: block.readers, "packed": pack_table(block.table)}, {})

    def _group(self, number: int) -> RawPoint:
        group = self._groups[number]
        keys = sorted({term_hash(each.term) for each in group.postings})
        packed = pack_postings(group.postings)
        return RawPoint({"posting": group.kind, READERS: group.readers, "keys": keys, "packed": packed}, {})

    @cached_property
    def _window_rows(self) -> Any:
        windows = self.files.vectors.windows
        return np.arange(self.chunks) if windows is None else np.repeat(np.arange(self.chunks), windows.counts)

    @cached_property
    def _classes_of_rows(self) -> Any:
        return classes_of_chunks(self.files)

    @cached_property
    def _blocks(self) -> list[CatalogBlock]:
        """The tables of catalogs and the vocabularies, each under its reader class."""
        blocks = [*catalog_blocks(self.files)]
        for kind in get_args(PostingKind):
            names, terms, chunks = list[str](), list[str](), list[int]()
            for term, readers, rows, _ in postings_of(self.files, kind, self._classes_of_rows):
                names.append(self._classes_of_rows.names[readers])
                terms.append(term)
                chunks.append(len(rows))
            table = pa.table([pa.array(terms, pa.string()), pa.array(chunks, pa.int64())], schema=REMOTE_TERMS.columns)
            blocks += blocks_by_class(kind, table, pa.chunked_array([pa.array(names, pa.string())]))
        return blocks + self._seals  # at the end: those of an older program keep their numbers

    @cached_property
    def _groups(self) -> list[PostingGroup]:
        return [group for kind in get_args(PostingKind) for group in self._groups_of(kind)]

    def _groups_of(self, kind: PostingKind) -> Iterator[PostingGroup]:
        names = self._classes_of_rows.names
        waiting, sizes = defaultdict[int, list[TermRows]](list), defaultdict[int, int](int)
        for term, readers, rows, counts in postings_of(self.files, kind, self._classes_of_rows):
            for start in range(0, len(rows), _MOST):
                part = slice(start, start + _MOST)
                waiting[readers].append(TermRows(term, rows[part], None if counts is None else counts[part]))
                sizes[readers] += len(rows[part])
                if sizes[readers] >= _TOGETHER:
                    yield PostingGroup(kind, names[readers], waiting.pop(readers))
                    sizes[readers] = 0
        for readers, postings in sorted(waiting.items()):
            yield PostingGroup(kind, names[readers], postings)


_BUSY = frozenset({408, 429, 502, 503, 504})
_OF_A_CHUNK = 8  # windows to request in place of one chunk
_SHOWN = 300  # characters of what the server says of a document

Document = tuple[str, dict[str, Any]]
"""The id of a document and what is sent of it."""


class OpenSearchUpload(GenerationUpload[OpenSearchDocuments]):
    """The upload of one generation to its index, and its comparison there."""

    def _ensure_collection(self) -> None:
        if self._exists():
            return
        body = index_body(self._points.manifest.embedder.dimension, self._config.index)
        try:
            self._requests.ask(lambda client: client.indices.create(index=self.collection, body=body))
        except RemoteDataError:
            if not self._exists():  # else an earlier try was done, and its answer lost
                raise

    def _exists(self) -> bool:
        return bool(self._requests.ask(lambda client: client.indices.exists(index=self.collection)))

    def _present(self, kind: str) -> set[int]:
        self._refresh()
        body: dict[str, Any] = {
            "query": filters.unread(*self._name, kind),
            "_source": False,
            "sort": [{NUMBER: "asc"}],
            "size": LISTED,
        }
        numbers = set[int]()
        while True:
            hits = self._requests.ask(lambda client: found(client, self.collection, body))
            numbers |= {int(hit["sort"][0]) for hit in hits}
            if len(hits) < LISTED:
                return numbers
            body["search_after"] = hits[-1]["sort"]

    def _put(self, kind: str, points: Sequence[NumberedPoint]) -> None:
        left: list[Document] = [
            (point_id(*self._name, kind, number), {NUMBER: number, **point.payload, **point.vectors})
            for number, point in points
        ]
        tried = 0
        while left:
            refused = self._send(left, at_once=kind == "manifest")
            left = [document for document in left if document[0] in refused]
            tried += 1
            if left and tried == self._requests.tries:
                raise BusyError(self._told(len(left), refused[left[0][0]]))
            if left:
                self._requests.wait(tried)

    def _send(self, documents: Sequence[Document], at_once: bool) -> Mapping[str, str]:
        """Send some documents; return those that the server wants to get later, by id, with its reason.

        Raises:
            RemoteDataError: it refuses some for good.
        """
        lines = [line for name, source in documents for line in ({"index": {"_id": name}}, source)]
        params = {"refresh": "true" if at_once else "false"}
        items = self._requests.ask(lambda client: _bulk(client, self.collection, lines, params))
        faults = {name: (status, reason) for name, status, reason in items if status >= 300}
        if lost := [reason for status, reason in faults.values() if status not in _BUSY]:
            raise RemoteDataError(f"{self._told(len(lost), lost[0])}; mend that, and run `citelock generations repair`")
        if len(items) != len(documents):
            raise RemoteDataError(self._told(len(documents) - len(items), "no answer about them"))
        return {name: reason for name, (_, reason) in faults.items()}

    def _told(self, count: int, reason: str) -> str:
        said = one_line(reason)[:_SHOWN]
        return redacted(f"the OpenSearch server does not take {count} documents of index {self.collection} ({said})")

    def _finish(self, _: float) -> None:
        """Make the sent documents visible to searches."""
        self._refresh()

    def _refresh(self) -> None:
        self._requests.ask(lambda client: client.indices.refresh(index=self.collection))

    def _count(self, kind: str) -> int:
        narrowed = filters.unread(*self._name, kind)
        return int(self._requests.ask(lambda client: counted(client, self.collection, narrowed)))

    def _nearest(self, queries: NDArray[np.float32]) -> Sequence[Sequence[int]]:
        several = self._points.has_windows
        narrowed = filters.unread(*self._name, "window" if several else "chunk")
        limit = NEAREST * (_OF_A_CHUNK if several else 1)
        rows = []
        for query in queries:
            nearest = graph_query(query.tolist(), limit, self._config.index.ef_search, narrowed)
            hits = self._found({"query": nearest, "size": limit, "_source": [ROW]})
            rows.append([*dict.fromkeys(int(hit["_source"][ROW]) for hit in hits)][:NEAREST])
        return rows

    def _terms(self, kind: PostingKind) -> Iterator[tuple[str, Counts, Counts]]:
        sent = self._points.sample(kind, PROBES)
        for term, counts in sent.items():
            conditions = [filters.with_value("posting", kind), filters.with_any("keys", [term_hash(term)])]
            narrowed = filters.unread(*self._name, "posting", conditions)
            hits = self._found({"query": narrowed, "size": MOST, "_source": ["packed"]})
            postings = unpack_postings([hit["_source"].get("packed", "") for hit in hits], [term]).get(term)
            there = {} if postings is None else dict(zip(postings.rows.tolist(), postings.counts.tolist(), strict=True))
            yield term, there, counts

    def _found(self, body: dict[str, Any]) -> Any:
        return self._requests.ask(lambda client: found(client, self.collection, body))


def _bulk(client: Any, index: str, lines: Sequence[Any], params: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """Return id, status and fault of each document."""
    answer = client.bulk(index=index, body=lines, params=dict(params))
    items = [item["index"] for item in answer["items"]]
    return [(str(item["_id"]), int(item["status"]), reason_of(item)) for item in items]


class OpenSearchPublisher(AliasPublisher, OpenSearchAlias):
    """The generations of one tenant in an OpenSearch server, for a holder of the tenant's lock (`Store.lock`)."""

    points_class, upload_class = OpenSearchDocuments, OpenSearchUpload

    def _stored_bytes(self, collection: str) -> int | None:
        """Return the size of an index's primary shards on disk; None if the key may not ask for it."""
        try:
            return self.requests.ask(lambda client: _primary_bytes(client, collection))
        except RemoteError:
            return None


def _primary_bytes(client: Any, index: str) -> int:
    answer = client.indices.stats(index=index, metric="store")
    return int(answer["indices"][index]["primaries"]["store"]["size_in_bytes"])
