"""The texts of a catalog's chunks, read from the database when they are shown.

Belongs here: columns of text by row. Does not belong here: the other columns (`catalog`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from rag_serving.artifacts.columns import Read
from rag_serving.indexes.remote.errors import RemoteDataError
from rag_serving.indexes.remote.protocol import RemoteReader
from rag_serving.indexes.remote.recent import Recent
from rag_serving.indexes.remote.rows import RowNumbers
from rag_serving.indexes.remote.tables import TEXT_COLUMNS

LIMIT = 8 << 20
"""Bytes of texts that one catalog keeps."""
_OVERHEAD = 400  # bytes of four texts in Python

Texts = Mapping[str, Any]


class RemoteTexts:
    """The texts of chunks by row. Safe to use from several threads."""

    def __init__(self, reader: RemoteReader, numbers: RowNumbers) -> None:
        self._reader, self._numbers = reader, numbers
        self.recent: Recent[int, Texts] = Recent(self._fetch, _size, LIMIT)

    def columns(self) -> dict[str, Read]:
        """Return what reads each column of text at some rows."""
        return {name: partial(self._read, name) for name in TEXT_COLUMNS}

    def _read(self, name: str, rows: Iterable[int]) -> list[Any]:
        wanted = [int(row) for row in rows]
        found = self.recent.of(wanted)
        return [found[row][name] for row in wanted]

    def _fetch(self, rows: list[int]) -> dict[int, Texts]:
        numbers = self._numbers.outward(rows).tolist()
        found = {texts["row"]: texts for texts in self._reader.texts(numbers).to_pylist()}
        if len(found) != len(rows) or not all(number in found for number in numbers):
            raise RemoteDataError("the database lacks the text of a passage that it lists; publish the pages again")
        return {row: found[number] for row, number in zip(rows, numbers, strict=True)}


def _size(texts: Texts) -> int:
    return _OVERHEAD + 2 * sum(len(texts[name] or "") for name in TEXT_COLUMNS)
