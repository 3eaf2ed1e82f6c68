"""The texts of a catalog's chunks, read from the database when they are shown, and compared with their digests.

Belongs here: columns of text by row. Does not belong here: the other columns (`catalog`), whose digests they are
(`seals`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from citelock_stores.remote.protocol import RemoteReader
from citelock_stores.remote.recent import Recent
from citelock_stores.remote.rows import RowNumbers
from citelock_stores.remote.seals import RESEND, Digests, text_digest
from citelock_stores.remote.tables import TEXT_COLUMNS
from rag_serving.artifacts.columns import Read
from rag_serving.indexes.databases import RemoteDataError

LIMIT = 8 << 20
"""Bytes of texts that one catalog keeps."""
_OVERHEAD = 400  # bytes of four texts in Python

Texts = Mapping[str, Any]


class AlteredTextError(RemoteDataError):
    """Texts are not those that were published. `numbers`: of which chunks of the generation."""

    def __init__(self, numbers: frozenset[int]) -> None:
        super().__init__(f"the text of {len(numbers)} passages was altered in the database and is not used; {RESEND}")
        self.numbers = numbers


class RemoteTexts:
    """The texts of chunks by row. Safe to use from several threads."""

    def __init__(
        self, reader: RemoteReader, numbers: RowNumbers, digests: Digests, report: Callable[[frozenset[int]], None]
    ) -> None:
        """`digests` [rows, 32]: of the texts that were published; `report` hears of chunks whose texts are others."""
        self._reader, self._numbers = reader, numbers
        self._digests, self._report = digests, report
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
        self._compare(rows, numbers, found)
        return {row: found[number] for row, number in zip(rows, numbers, strict=True)}

    def _compare(self, rows: list[int], numbers: list[int], found: Mapping[int, Texts]) -> None:
        """Compare texts with the digests of those that were published.

        Raises:
            AlteredTextError: they are others; `report` heard of them.
        """
        altered = frozenset(
            number
            for row, number in zip(rows, numbers, strict=True)
            if text_digest(found[number]) != self._digests[row].tobytes()
        )
        if altered:
            self._report(altered)
            raise AlteredTextError(altered)


def _size(texts: Texts) -> int:
    return _OVERHEAD + 2 * sum(len(texts[name] or "") for name in TEXT_COLUMNS)
