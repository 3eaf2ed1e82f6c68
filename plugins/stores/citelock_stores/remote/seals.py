"""Seals of a database's contents: without the installation's secret nobody can alter a row there unnoticed.

Belongs here: the digests of a reader class's rows and texts, the keyed seal over them, verifying returned rows. Does
not belong here: the columns (`tables`), making the sealed tables (`publishing.tables`), the consequences of an
alteration (`generation`).

A seal covers, for one reader class of one generation of one tenant: the rows of REMOTE_CHUNKS and REMOTE_PLACES, a
SHA-256 digest of every text, and a digest of each row of REMOTE_ORIGINALS. Rows are compared when a catalog is fetched,
texts when they are read. Vectors, postings and vocabularies are not sealed: they decide the order of passages alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from citelock_stores.remote.tables import TEXT_COLUMNS
from rag_serving.artifacts.columns import dictionary_encode, indices, values_digest
from rag_serving.artifacts.secret import Seal, canonical
from rag_serving.indexes.databases import RemoteDataError

PURPOSE = "index seals"
DIGEST_BYTES = 32
RESEND = "`citelock generations repair --resend` sends it again"

Digests = NDArray[np.uint8]  # [rows, DIGEST_BYTES]


class SealedRows(NamedTuple):
    """The contents of one seal. `texts`, `originals`: digests of DIGEST_BYTES, one after the other."""

    readers: str
    chunks: pa.Table  # REMOTE_CHUNKS of the class, by row
    places: pa.Table  # REMOTE_PLACES of the class, by row and place
    texts: bytes  # by row
    originals: bytes  # ascending


class GenerationSeals:
    """Makes and compares the seals of one generation."""

    def __init__(self, home: Path, tenant: str, generation: str) -> None:
        """Raises SecretError if the installation's secret cannot be used."""
        self._seal = Seal(home, PURPOSE)
        self._names = tenant.encode(), generation.encode()

    def of(self, rows: SealedRows) -> bytes:
        """Return the seal of one reader class."""
        return self._seal.of(*self._parts(rows))

    def holds(self, seal: bytes | None, rows: SealedRows) -> bool:
        """Return whether this installation made this seal of exactly these rows."""
        return self._seal.holds(seal, *self._parts(rows))

    def _parts(self, rows: SealedRows) -> Iterator[bytes]:
        yield from self._names
        yield rows.readers.encode("utf-8", "surrogatepass")
        yield values_digest(rows.chunks).encode()
        yield values_digest(rows.places).encode()
        yield hashlib.sha256(rows.texts).digest()
        yield hashlib.sha256(rows.originals).digest()


def text_digest(texts: Mapping[str, Any]) -> bytes:
    """Return the digest of the texts of one chunk, each by its length; a null differs from an empty text."""
    hasher = hashlib.sha256()
    for name in TEXT_COLUMNS:
        text = texts[name]
        content = b"" if text is None else text.encode("utf-8", "surrogatepass")
        hasher.update((-1 if text is None else len(content)).to_bytes(8, "little", signed=True))
        hasher.update(content)
    return hasher.digest()


def original_digest(row: Mapping[str, Any]) -> bytes:
    """Return the digest of one row of REMOTE_ORIGINALS."""
    return hashlib.sha256(canonical(dict(row))).digest()


def checked_texts(
    seals: GenerationSeals, stored: pa.Table, classes: frozenset[str], tables: tuple[pa.Table, pa.Table, pa.Table]
) -> Digests:
    """Verify the returned tables by their seals; return the digest of the text of each chunk, in their order.

    `stored`: REMOTE_SEALS of `classes`; `tables`: the returned chunks, places and originals.

    Raises:
        RemoteDataError: a seal is missing or does not match.
    """
    chunks, places, originals = tables
    by_class = _by_class(stored)
    if missing := classes - by_class.keys():
        raise RemoteDataError(
            f"{len(missing)} of {len(classes)} reader classes of the generation in the database have no seal: an older "
            "program published it, or it was altered; `citelock generations repair` adds them"
        )
    digests = np.zeros((len(chunks), DIGEST_BYTES), np.uint8)
    rows, others = _rows_of(chunks), _rows_of(places)
    for readers in sorted(classes):
        own, stands = rows.get(readers, _NO_ROWS), by_class[readers]
        held = chunks.take(indices(own)), places.take(indices(others.get(readers, _NO_ROWS)))
        sealed = SealedRows(readers, *held, stands.texts, stands.originals)
        if len(stands.texts) != len(own) * DIGEST_BYTES or not seals.holds(stands.seal, sealed):
            raise RemoteDataError(f"passages of a reader class were altered in the database; {RESEND}")
        digests[own] = np.frombuffer(stands.texts, np.uint8).reshape(len(own), DIGEST_BYTES)
    listed = b"".join(by_class[readers].originals for readers in classes)
    if _parted(listed) != sorted(map(original_digest, originals.to_pylist())):
        raise RemoteDataError(f"the list of pages' files was altered in the database; {RESEND}")
    return digests


class _Stored(NamedTuple):
    texts: bytes
    originals: bytes
    seal: bytes


_NO_ROWS = np.zeros(0, np.int64)


def _by_class(stored: pa.Table) -> dict[str, _Stored]:
    """Return the stored parts of each class, joined in their order."""
    classes: dict[str, list[Mapping[str, Any]]] = {}
    for row in stored.to_pylist():
        classes.setdefault(row["readers"], []).append(row)
    return {
        readers: _Stored(*(b"".join(part[name] or b"" for part in parts) for name in _Stored._fields))
        for readers, parts in classes.items()
    }


def _rows_of(table: pa.Table) -> dict[str, NDArray[np.int64]]:
    """Return the rows of each reader class, ascending."""
    if not len(table):
        return {}
    names, codes = dictionary_encode(table["readers"])
    order = np.argsort(codes, kind="stable").astype(np.int64)
    borders = np.searchsorted(codes[order], np.arange(len(names) + 1))
    return {name: order[borders[number] : borders[number + 1]] for number, name in enumerate(names)}


def _parted(digests: bytes) -> Sequence[bytes]:
    return sorted(digests[start : start + DIGEST_BYTES] for start in range(0, len(digests), DIGEST_BYTES))
