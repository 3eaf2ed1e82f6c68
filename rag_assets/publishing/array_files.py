"""Arrays of one dimension, written block by block as numpy's own files.

Belongs here: the file's header and its blocks. Does not belong here: reading (`rag_serving.artifacts.contents`), what
is in the arrays.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray


class ArrayFile:
    """An `.npy` file that grows; complete, and the same bytes as of `np.save`, when its `with` block ends."""

    def __init__(self, path: Path, kind: DTypeLike) -> None:
        self._path, self._kind, self._length = path, np.dtype(kind), 0

    def __enter__(self) -> Self:
        self._file = self._path.open("wb")
        self._write_header()
        self._begin = self._file.tell()
        return self

    def append(self, values: NDArray[Any]) -> None:
        """Add values, converted to the type of the file."""
        if len(values):
            self._file.write(np.ascontiguousarray(values, self._kind).data)
            self._length += len(values)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with self._file:
            if error is None:
                self._file.seek(0)
                self._write_header()
                assert self._file.tell() == self._begin  # numpy leaves room for the length to grow

    def _write_header(self) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(self._kind), "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._file, header)
