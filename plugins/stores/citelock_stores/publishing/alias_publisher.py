"""Publishing a checked generation to a server: sent in batches, compared, and then named by the tenant's alias.

Belongs here: a generation's contents in such servers, the order of a publication, quotas, unused data.
Does not belong here: a server (`publishing.qdrant`), moving the alias (`remote.aliases`).

The same generation always gives the same points. The alias moves when all of them are stored and compared: a process
killed earlier leaves the publication unchanged, and the next one continues with the points sent, or removes unwanted
ones.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from citelock_stores.publishing.tables import CatalogBlock, original_files, original_table, place_table, seal_blocks
from citelock_stores.remote.aliases import AliasPointer
from citelock_stores.remote.connections import RepeatedRequests
from citelock_stores.remote.protocol import PostingKind
from citelock_stores.remote.stored import (
    FORMAT,
    GENERATION,
    POINT,
    TENANT,
    ManifestPayload,
    StoredGeneration,
    payload_of,
    text_of,
)
from rag_serving.artifacts.manifest import FILE as MANIFEST_FILE
from rag_serving.artifacts.store import Store, read_text
from rag_serving.config.loading import Config
from rag_serving.indexes import exact
from rag_serving.indexes.databases import RemoteDataError, RemoteError, newest_pages
from rag_serving.indexes.generation import GenerationFiles, read_files

PIECE = 512 << 10
"""Bytes of an original in one point."""


class RawPoint(NamedTuple):
    """A point without its id: its payload, and its vectors by name."""

    payload: dict[str, Any]
    vectors: dict[str, Any]


Maker = Callable[[Sequence[int]], Iterator[RawPoint]]
"""Gives the points of a kind with some numbers."""


class GenerationPoints(ABC):
    """The points of one generation, made on demand."""

    batch_sizes: ClassVar[Mapping[str, int]] = {}
    """How many points of a kind go in one request, where they are large."""

    def __init__(self, files: GenerationFiles, folder: Path, home: Path) -> None:
        """`files` were read from `folder`, and so compared with the manifest; the secret of `home` seals them."""
        self.files, self._folder, self._home = files, folder, home
        self.manifest, self._table = files.manifest, files.table
        self.chunks = len(files.table)
        self._content = lru_cache(maxsize=1)(self._read)

    @property
    @abstractmethod
    def counts(self) -> Mapping[str, int]:
        """Return how many points there are of each kind but the manifest."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Return about how many bytes are stored."""

    @abstractmethod
    def _makers(self) -> Mapping[str, Maker]:
        """Return the makers of each kind of points."""

    @property
    def has_windows(self) -> bool:
        """Whether a chunk may have several vectors."""
        return self.files.vectors.windows is not None

    def of(self, kind: str, numbers: Sequence[int]) -> Iterator[RawPoint]:
        """Yield the points of a kind with some numbers."""
        owner = {TENANT: self.manifest.tenant, GENERATION: self.manifest.id, POINT: kind}
        for point in self._makers()[kind](numbers):
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
    def _seals(self) -> list[CatalogBlock]:
        """The seals that prove the rows of a reader class unaltered, in parts."""
        return [*seal_blocks(self.files, self._home)]

    @cached_property
    def original_bytes(self) -> int:
        """Bytes of the files of pages, each once."""
        return sum({row["sha256"]: row["bytes"] for row in self._originals}.values())

    def _piece_points(self, numbers: Sequence[int]) -> Iterator[RawPoint]:
        for number in numbers:
            sha256, place, readers = self._pieces[number]
            content = self._content(sha256)[place * PIECE : (place + 1) * PIECE]
            yield RawPoint({"sha256": sha256, "piece": place, "readers": readers, "bytes": content}, {})

    def _read(self, sha256: str) -> bytes:
        return next(each for each in self.files.originals.values() if each.sha256 == sha256).read()

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


BATCH = 100
LISTED = 10_000
"""Ids of one answer."""

PROBES, NEAREST = 16, 10
SAME = 1e-5  # difference of cosines that count as equal

NumberedPoint = tuple[int, RawPoint]
Counts = Mapping[int, int]
"""How often chunks have a term, by row."""
Points = TypeVar("Points", bound=GenerationPoints)


@dataclass(frozen=True)
class Uploaded:
    """The result of an upload. `present`: points that were there already; `repeats`: requests that were sent again."""

    points: int
    batches: int
    present: int
    repeats: int
    seconds: float


class GenerationUpload(ABC, Generic[Points]):
    """The upload of one generation to its collection, and its comparison there."""

    def __init__(self, requests: RepeatedRequests[Any], collection: str, points: Points, config: Config) -> None:
        self.collection = collection
        self._requests, self._points, self._config = requests, points, config
        self._name = points.manifest.tenant, points.manifest.id

    @abstractmethod
    def _ensure_collection(self) -> None:
        """Make the collection and its indexes, unless they exist."""

    @abstractmethod
    def _present(self, kind: str) -> set[int]:
        """Return the numbers of the points of a kind that are there."""

    @abstractmethod
    def _put(self, kind: str, points: Sequence[NumberedPoint]) -> None:
        """Send points of a kind."""

    @abstractmethod
    def _finish(self, began: float) -> None:
        """Wait until the sent points can be searched; `began`: the start of sending, of `time.monotonic`."""

    @abstractmethod
    def _count(self, kind: str) -> int:
        """Return how many points of a kind are there."""

    @abstractmethod
    def _nearest(self, queries: NDArray[np.float32]) -> Sequence[Sequence[int]]:
        """Return the rows of the ten chunks nearest to each of some vectors [n, d], as the graph finds them."""

    @abstractmethod
    def _terms(self, kind: PostingKind) -> Iterator[tuple[str, Counts, Counts]]:
        """Yield some terms with the server's counts, and those of the files."""

    def send(self, progress: Callable[[int, int], None] | None = None, resend: bool = False) -> Uploaded:
        """Send every missing point; `resend`: also replace existing ones. `progress` receives (points, all points).

        Raises:
            RemoteError: the server does not take them.
        """
        began = time.monotonic()
        self._ensure_collection()
        if not self._present("manifest"):  # one that is published already stays whole while it is mended
            self._put("manifest", [(0, RawPoint(self._points.manifest_payload(complete=False), {}))])
        sent, batches, everything = 0, 0, sum(self._points.counts.values())
        present = {kind: set[int]() if resend else self._present(kind) for kind in self._points.counts}
        done = sum(len(numbers) for numbers in present.values())
        for kind, count in self._points.counts.items():
            size = self._points.batch_sizes.get(kind, BATCH)
            for numbers in _batches([number for number in range(count) if number not in present[kind]], size):
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
        chunks are found by their vectors and terms.

        Raises:
            RemoteDataError: something is missing, or recall is too low.
        """
        where = f"collection {self.collection} is not as generation {self._points.manifest.id} was sent"
        for kind, expected in self._points.counts.items():
            if (found := self._count(kind)) != expected:
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


def _batches(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]


def some_of(count: int) -> list[int]:
    """Return the numbers of some of so many terms, evenly spread."""
    return sorted({round(number) for number in np.linspace(0, count - 1, PROBES)}) if count else []


LEFT_READABLE = timedelta(hours=1)
"""How long a generation stays that the alias left: questions may still be reading it."""
_WARN = 0.8  # of a quota

_log = logging.getLogger(__name__)


class QuotaError(RemoteError):
    """A generation does not fit into the configured quota; the message says how to mend it."""


@dataclass(frozen=True)
class AliasPublication:
    """The result of a publication. `recall`: of sample queries, 0 to 1; `quotas`: the used part of each; `warnings`:
    messages for an operator."""

    generation: str
    previous: str | None
    uploaded: Uploaded
    recall: float
    removed: tuple[str, ...]
    quotas: tuple[str, ...]
    warnings: tuple[str, ...]

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
            "quota": "; ".join(self.quotas) or "none is configured",
            "warnings": "; ".join(self.warnings) or "none",
        }


class AliasPublisher(AliasPointer):
    """The generations of one tenant in a server, for a holder of the tenant's lock (`Store.lock`)."""

    points_class: ClassVar[type[GenerationPoints]]
    upload_class: ClassVar[type[GenerationUpload[Any]]]

    def __init__(self, store: Store, tenant: str, config: Config) -> None:
        super().__init__(config, tenant)
        self._store, self._config = store, config

    def publish(
        self, generation_id: str, progress: Callable[[int, int], None] | None = None, resend: bool = False
    ) -> AliasPublication:
        """Send a generation, compare it, and let the tenant's alias name it. `progress` hears of (points, all points);
        `resend`: points that are there are sent, too.

        Raises:
            StoreError: its folder is missing or damaged.
            QuotaError: it does not fit; nothing was sent.
            RemoteError: the server cannot take it; the alias is as it was.
        """
        files = read_files(self._store, self.tenant, generation_id, self._config.indexing.memory_bytes)
        points = self.points_class(files, self._store.generation(self.tenant, generation_id), self._config.home)
        removed = self.prune(also_keep=generation_id)
        quotas, warnings = self._check_quota(points)
        upload = self.upload_class(
            self.requests, self.layout.collection(self.tenant, generation_id), points, self._config
        )
        uploaded = upload.send(progress, resend)
        recall = upload.check()
        upload.complete()
        previous = self.point_to(generation_id)
        return AliasPublication(generation_id, previous, uploaded, recall, removed, quotas, warnings)

    def prune(self, also_keep: str | None = None) -> tuple[str, ...]:
        """Remove the remains of killed publications, and all but the last `keep_generations`; return their ids.

        A generation that the alias left stays for an hour, for its running questions.
        """
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

    def _check_quota(self, points: GenerationPoints) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the future use of each quota, and warnings of those that are nearly used up.

        Raises:
            QuotaError: one would be exceeded.
        """
        settings, shares, warnings = self._config.index, list[str](), list[str]()
        if settings.quota_vectors is None and settings.quota_bytes is None:
            return (), ()
        others = [each.manifest for each in self._everything() if each.manifest and each.id != points.manifest.id]
        used = sum(each.vectors for each in others), sum(each.bytes for each in others)
        own = points.manifest.vector_count, points.size
        quotas = settings.quota_vectors, settings.quota_bytes
        for name, quota, before, new in zip(("vectors", "bytes"), quotas, used, own, strict=True):
            if quota is None:
                continue
            share = f"{before + new:,} of {quota:,} {name} (index.quota_{name})"
            shares.append(share)
            if before + new < _WARN * quota:
                continue
            if before + new > quota:
                raise QuotaError(
                    f"generation {points.manifest.id} would take {self.product} to {share}; nothing was sent. Lower "
                    "indexing.keep_generations, index fewer pages, or raise the quota"
                )
            warnings.append(f"{self.product} holds {share} with generation {points.manifest.id}")
            _log.warning("%s", warnings[-1])
        return tuple(shares), tuple(warnings)

    def _everything(self) -> list[StoredGeneration]:
        """Return the generations of all tenants under the configured name."""
        base = self.layout.base
        names = [name for name in self.collections() if name == base or name.startswith(f"{base}.")]
        return [each for name in names for each in self.in_collection(name, everybody=True)]
