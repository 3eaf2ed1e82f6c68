"""A generation's files as what a server with collections and aliases holds of it: points, or documents.

Belongs here: what such servers have in common: owners, manifest, files of pages, classes.
Does not belong here: the points of one server (`qdrant_points`, `opensearch_documents`), sending them (`upload`).

The same generation always gives the same points: what was sent before a process was killed need not be sent again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow.compute as pc

from citelock_stores.publishing.remote_tables import CatalogBlock, original_files, original_table, place_table
from citelock_stores.publishing.seals import seal_blocks
from citelock_stores.remote.packing import text_of
from citelock_stores.remote.payloads import payload_of
from citelock_stores.remote.point_ids import FORMAT
from citelock_stores.remote.stored import GENERATION, POINT, TENANT, ManifestPayload
from rag_serving.artifacts.manifest import FILE as MANIFEST_FILE
from rag_serving.artifacts.store import read_text
from rag_serving.indexes.generation_files import GenerationFiles
from rag_serving.indexes.source_dates import newest_pages

PIECE = 512 << 10
"""Bytes of an original in one point."""


class RawPoint(NamedTuple):
    """A point without its id: its payload, and its vectors by name."""

    payload: dict[str, Any]
    vectors: dict[str, Any]


Maker = Callable[[Sequence[int]], Iterator[RawPoint]]
"""Gives the points of a kind with some numbers."""


class GenerationPoints(ABC):
    """The points of one generation, made when they are asked for."""

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
        """Return what makes the points of each kind."""

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
        """Return the payload of the point that says what the generation is."""
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
        """What shows that nobody altered the rows of a reader class, in parts."""
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
        """The files of pages, each for those who may read all of its page."""
        files = original_files(self.files)
        rows = original_table(files).to_pylist()
        return [{**row, "readers": file.readers} for row, file in zip(rows, files, strict=True)]

    @cached_property
    def _pieces(self) -> list[tuple[str, int, list[str]]]:
        """Digest, place and reader classes of every part of a file; a file that several pages have stands once."""
        files: dict[str, tuple[int, set[str]]] = {}
        for row in self._originals:
            files.setdefault(row["sha256"], (row["bytes"], set()))[1].add(row["readers"])
        return [
            (sha256, place, sorted(readers))
            for sha256, (size, readers) in sorted(files.items())
            for place in range(max(1, -(-size // PIECE)))
        ]
