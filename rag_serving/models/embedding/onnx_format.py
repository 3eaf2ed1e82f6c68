"""ONNX models as bytes: the few messages of the format that the graphs here are made of, as protobuf writes them. A
message is fields by number, each an integer, a float, text, bytes or a list of them; the numbers are those of
onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto), the encoding is that of
https://protobuf.dev/programming-guides/encoding/. The package `onnx`, 28 MB, is needed only by the test that reads what
is written here."""

from __future__ import annotations

import hashlib
import hmac
import logging
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.secret import SecretError, derived_key

KEY_PURPOSE = "graphs"
_SIGNATURE_BYTES = 32

_log = logging.getLogger(__name__)


class GraphCache:
    """The graphs under a home folder; safe to delete, to kill at any moment, and to share between processes."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def get(self, made_from: str, make: Callable[[], bytes]) -> bytes:
        """Return the graph, or digest, made from something, as it was kept, or as it is made now. A file that was
        altered is made again; if nothing can be kept, or there is no home yet, nothing is."""
        if not self._home.is_dir():
            return make()
        name = hashlib.sha256(made_from.encode()).hexdigest()[:32]
        path = self._home / "cache" / "models" / f"{name}.graph"
        try:
            key = derived_key(self._home, KEY_PURPOSE)
        except SecretError as error:
            _log.info("no graph is kept: %s", error)
            return make()
        if kept := _read(path, key, name):
            return kept
        graph = make()
        from rag_serving.artifacts.store import write_bytes  # imports pyarrow: not for a graph that is there

        with suppress(OSError):
            write_bytes(path, _signature(key, name, graph) + graph)
        return graph


def _read(path: Path, key: bytes, name: str) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    signature, graph = content[:_SIGNATURE_BYTES], content[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(key, name, graph)):
        _log.warning("%s is damaged and made again", path)
        return None
    return graph


def _signature(key: bytes, name: str, graph: bytes) -> bytes:
    return hmac.new(key, name.encode() + b"\n" + graph, hashlib.sha256).digest()


FLOAT, UINT8, INT8, INT32, INT64, FLOAT16 = 1, 2, 3, 6, 7, 10
"""Types of elements."""
_TYPES: Mapping[str, int] = {"float32": FLOAT, "uint8": UINT8, "int8": INT8, "int32": INT32, "int64": INT64}
_EXTERNAL = 1
_OF_FLOAT, _OF_INT, _OF_INTS = 1, 2, 7  # kinds of attributes
_IR_VERSION, _OPSET = 9, 17

Scalar = int | float | str | bytes


def node(kind: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: Any) -> bytes:
    """Return an operation of a graph, with its one output."""
    made = [_attribute(name, value) for name, value in sorted(attributes.items())]
    return _message({1: inputs, 2: output, 4: kind, 5: made, 7: domain})


def tensor(name: str, values: NDArray[Any]) -> bytes:
    """Return an array embedded in the model."""
    return _message({1: values.shape, 2: _TYPES[values.dtype.name], 8: name, 9: values.tobytes()})


def external_tensor(name: str, kind: int, shape: Sequence[int], place: Mapping[str, str]) -> bytes:
    """Return an array whose bytes are elsewhere. `place`: `location`, and `offset` and `length` in that file."""
    told = [_message({1: key, 2: value}) for key, value in place.items()]
    return _message({1: shape, 2: kind, 8: name, 13: told, 14: _EXTERNAL})


def described(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    """Return an input or output of a graph; a size that is not fixed has a name."""
    sizes = [_message({2 if isinstance(size, str) else 1: size}) for size in shape]
    return _message({1: name, 2: _message({1: _message({1: kind, 2: _message({1: sizes})})})})


def model(
    name: str,
    nodes: Sequence[bytes],
    initializers: Sequence[bytes],
    inputs: Sequence[bytes],
    outputs: Sequence[bytes],
    runtime: str = "",
) -> bytes:
    """Return a model of one graph. `runtime`: whose operators it uses beside those of ONNX."""
    graph = _message({1: nodes, 2: name, 5: initializers, 11: inputs, 12: outputs})
    operators = [_message({1: "", 2: _OPSET}), *([_message({1: runtime, 2: 1})] if runtime else [])]
    return _message({1: _IR_VERSION, 7: graph, 8: operators})


def _attribute(name: str, value: float | Sequence[int]) -> bytes:
    if isinstance(value, float):
        return _message({1: name, 2: value, 20: _OF_FLOAT})
    if isinstance(value, int | np.integer):
        return _message({1: name, 3: int(value), 20: _OF_INT})
    return _message({1: name, 8: value, 20: _OF_INTS})


def _message(fields: Mapping[int, Scalar | Sequence[Scalar]]) -> bytes:
    return b"".join(
        _field(number, each)
        for number, value in fields.items()
        for each in ([value] if isinstance(value, int | float | str | bytes) else value)
    )


def _field(number: int, value: Scalar) -> bytes:
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value % (1 << 64))
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Return a number that is not negative, seven bits a byte, the lowest first."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
