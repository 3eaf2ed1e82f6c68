"""Arrays in NumPy's `.npy` format, read from bytes without a copy.

Belongs here: the format's header, versions 1.0 and 2.0 (NumPy's documentation, `numpy.lib.format`), and arrays over a
file's bytes. Does not belong here: where the bytes come from (`contents`), what an array means.

The header is a Python literal. NumPy evaluates it with the `ast` module, which two threads must not use at once under
Python 3.11 (python/cpython#106905: "AST constructor recursion depth mismatch"), and servers open generations in several
threads. Only the literals that NumPy writes for plain and structured types are accepted here.
"""

from __future__ import annotations

import json
import math
import re
import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"\x93NUMPY"
_LENGTH_FIELDS = {(1, 0): struct.Struct("<H"), (2, 0): struct.Struct("<I")}
_LONGEST_HEADER = 10_240  # bytes
_LITERAL = re.compile(
    r"\{'descr': (?P<type>'[^']*'|\[[^\]]*\]), 'fortran_order': (?P<order>True|False), "
    r"'shape': \((?P<shape>[\d, ]*)\), \} *\n"
)
_TYPE = re.compile(r"[<>|=]?[a-zA-Z]\d*")


class _Header(NamedTuple):
    """`start`: where the array's items begin, in bytes."""

    type: np.dtype[Any]
    by_column: bool
    shape: tuple[int, ...]
    start: int


def array_of(data: memoryview) -> NDArray[Any]:
    """Return the array in the bytes of an `.npy` file, not copied.

    Raises:
        ValueError: there is none, or it is shorter than declared, or has Python objects.
    """
    header = _header_of(data)
    if not (size := math.prod(header.shape)):
        return np.zeros(header.shape, header.type)
    items = np.frombuffer(data, header.type, size, header.start)
    return items.reshape(header.shape, order="F" if header.by_column else "C")


def _header_of(data: memoryview) -> _Header:
    """Return the contents of an `.npy` file's header.

    Raises:
        ValueError: there is none, or it is of another version, too long, or no literal that NumPy writes.
    """
    version = len(_MAGIC)
    if bytes(data[:version]) != _MAGIC or len(data) < version + 2:
        raise ValueError("no .npy file: the magic bytes are missing")
    if not (field := _LENGTH_FIELDS.get((data[version], data[version + 1]))):
        raise ValueError(f"the .npy format {data[version]}.{data[version + 1]} is not read")
    begin = version + 2 + field.size
    length = field.unpack(data[version + 2 : begin])[0] if len(data) >= begin else 0
    if length > _LONGEST_HEADER:
        raise ValueError(f"the header of an .npy file has {length} bytes, at most {_LONGEST_HEADER} are read")
    literal = _LITERAL.fullmatch(bytes(data[begin : begin + length]).decode("latin-1"))
    if not literal:
        raise ValueError("the header of an .npy file is cut off or damaged")
    shape = tuple(int(size) for size in literal["shape"].split(",") if size.strip())
    return _Header(_type_of(literal["type"]), literal["order"] == "True", shape, begin + length)


def _type_of(literal: str) -> np.dtype[Any]:
    """Return the type that the literal of a header's `descr` names: a type's string, or a list of named fields.

    Raises:
        ValueError: it is neither, or a type of Python objects.
    """
    as_json = re.sub(r",\s*\]", "]", literal.translate(str.maketrans("'()", '"[]')))
    try:
        described = json.loads(as_json)
        if isinstance(described, str):
            return np.dtype(_plain(described))
        return np.dtype([(str(name), _plain(kind), *map(tuple, sizes)) for name, kind, *sizes in described])
    except (ValueError, TypeError) as error:
        raise ValueError(f"the type {literal} of an .npy file is not read: {error}") from None


def _plain(kind: object) -> str:
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        raise ValueError(f"{kind!r} is no plain type")
    if kind.lstrip("<>|=").startswith("O"):
        raise ValueError("Python objects are not read")
    return kind
