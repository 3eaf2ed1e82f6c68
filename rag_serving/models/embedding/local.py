"""The embedding model that runs in this process: a BERT sentence encoder as an ONNX graph. The weights are named in the
graph as external data inside the safetensors file itself, so onnxruntime maps them into memory: nothing is copied,
converted or written, and only the touched rows of the word table become resident."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_serving.deadline import cores
from rag_serving.models.embedding import onnx_format
from rag_serving.models.embedding.device import (
    CPU,
    CPU_TOKENS,
    CUDA,
    GPU_TOKENS,
    Device,
    batch_slices,
    chosen_provider,
    note_unused_gpu,
    prompts_digest,
    refused,
)
from rag_serving.models.embedding.factory import load_tokenizer
from rag_serving.models.embedding.onnx_format import GraphCache
from rag_serving.models.embedding.weights import Shape, Weights
from rag_serving.models.protocols import ModelError, Progress

MAX_WINDOWS = 8
_RECIPE = 1  # how windows become a vector; part of the name, so that a change does not mix with cached vectors
_MAX_THREADS = 16
_GPU_THREADS = 2  # one batch is prepared while another is computed


@dataclass(frozen=True)
class _Window:
    text: int
    ids: list[int]


_Batch = Sequence[_Window]


class LocalSettings(NamedTuple):
    """Settings of an embedding model; see `embedding` in the configuration."""

    query_prompt: str = ""
    document_prompt: str = ""
    batch_size: int = 16
    query_precision: Precision = "float32"
    device: Device = "cpu"
    batch_tokens: int | None = None


_DEFAULTS = LocalSettings()


class LocalEmbedder:
    """A BERT sentence encoder in float32, for passages on a GPU if there is one; for questions in int8 if configured. A
    text longer than the encoder reads at once is cut into contiguous windows of equal size, whose vectors are averaged
    by their token counts and normalized again, so that it is not judged by its beginning alone; passages that are much
    longer come window by window (`rag_assets.steps.contexts.contextualize`). Of more than `MAX_WINDOWS` windows that
    many, evenly spread and with both ends, are embedded."""

    def __init__(self, weights: Weights, settings: LocalSettings = _DEFAULTS, graphs: GraphCache | None = None) -> None:
        """Load the model. Raises ModelError: the files cannot be run."""
        if not (settings.query_prompt or settings.document_prompt):
            settings = settings._replace(query_prompt=weights.prompts[0], document_prompt=weights.prompts[1])
        prompts = prompts_digest(settings.query_prompt, settings.document_prompt)
        self.name = f"local/{weights.name}/{_RECIPE}{prompts}"
        self._weights, self._settings, self._graphs = weights, settings, graphs
        self._tokenizer = load_tokenizer(weights.tokenizer)
        self._first, self._last = map(self._special, weights.ends)
        self._query_bert = Bert(weights, settings.query_precision, graphs)
        self.dimension = self._query_bert.dimension + (weights.scale is not None)

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        """Return vectors [n, dimension] in the order of the texts, equal to 1e-6 in any batch."""
        windows = self._windows([self._settings.document_prompt + text for text in texts])
        vectors = self._embed(self._bert, windows, len(texts), progress)
        return self._weights.scale.passages(vectors) if self._weights.scale else vectors

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector [dimension] of a question (about 3 ms, on the caller's thread alone)."""
        windows = [*self._windows([self._settings.query_prompt + text])]
        is_short = len(windows) == 1  # there is nothing to average, which takes 0.2 ms
        vectors = _run(self._query_bert, windows) if is_short else self._embed(self._query_bert, windows, 1, None)
        vector: NDArray[np.float32] = vectors[0]
        return self._weights.scale.question(vector) if self._weights.scale else vector

    def check(self) -> str:
        """Embed a word and say where the model's files are."""
        vector = self.embed_query("passage")
        if not np.isfinite(vector).all():
            raise ModelError(f"{self.name} gives no finite vectors; fetch its files again ({self._weights.origin})")
        return f"{self.name}: {self.dimension} dimensions, from {self._weights.origin}"

    @cached_property
    def _bert(self) -> Bert:
        """The encoder of passages, opened with the first one: a process that only searches does not need it."""
        device = self._settings.device
        if self._settings.query_precision == "float32" and provider_of(device) == CPU:
            return self._query_bert
        return Bert(self._weights, graphs=self._graphs, device=device)

    def _special(self, token: str) -> int:
        number = self._tokenizer.token_to_id(token)
        if number is None:
            raise ModelError(f"{self._weights.tokenizer} has no token {token!r}; only BERT encoders run locally")
        return int(number)

    def _embed(
        self, bert: Bert, windows: Iterable[_Window], count: int, progress: Progress | None
    ) -> NDArray[np.float32]:
        sums = np.zeros((count, bert.dimension), np.float64)
        windows = sorted(windows, key=lambda window: len(window.ids), reverse=True)
        left = np.bincount(np.array([window.text for window in windows], np.int64), minlength=count)
        for batch, embedded in _run_all(bert, self._batches(bert, windows)):
            for window, vector in zip(batch, embedded, strict=True):
                sums[window.text] += vector.astype(np.float64) * len(window.ids)
                left[window.text] -= 1
            if progress:
                progress(int((left == 0).sum()), count)
        vectors: NDArray[np.float32] = (sums / np.linalg.norm(sums, axis=1, keepdims=True)).astype(np.float32)
        return vectors

    def _batches(self, bert: Bert, windows: Sequence[_Window]) -> list[_Batch]:
        """Return windows, the longest first, in batches; on a GPU only tokens bound them."""
        most = len(windows) if bert.is_on_gpu else self._settings.batch_size
        tokens = self._settings.batch_tokens or (GPU_TOKENS if bert.is_on_gpu else CPU_TOKENS)
        return [windows[part] for part in batch_slices([len(window.ids) for window in windows], most, tokens)]

    def _windows(self, texts: Sequence[str]) -> Iterator[_Window]:
        size = self._weights.shape.max_tokens - 2
        for number, encoding in enumerate(self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)):
            for ids in spread(encoding.ids, size, MAX_WINDOWS):
                yield _Window(number, [self._first, *ids, self._last])


def _run_all(bert: Bert, batches: Sequence[_Batch]) -> Iterator[tuple[_Batch, NDArray[np.float32]]]:
    if len(batches) == 1:
        yield batches[0], _run(bert, batches[0])
        return
    with ThreadPoolExecutor(_GPU_THREADS if bert.is_on_gpu else min(cores(), _MAX_THREADS), "embed") as pool:
        try:
            yield from zip(batches, pool.map(partial(_run, bert), batches), strict=True)
        finally:
            pool.shutdown(cancel_futures=True)


def _run(bert: Bert, batch: _Batch) -> NDArray[np.float32]:
    lengths = np.array([len(window.ids) for window in batch], np.int32)
    ids = np.zeros((len(batch), int(lengths.max())), np.int64)
    for row, window in zip(ids, batch, strict=True):
        row[: len(window.ids)] = window.ids
    return bert(ids, lengths)


def spread(ids: list[int], size: int, most: int) -> list[list[int]]:
    """Cut ids into windows of equal size (to one token), none above `size`; of more than `most`, an even choice."""
    count = max(1, -(-len(ids) // size))
    borders = [len(ids) * number // count for number in range(count + 1)]
    windows = [ids[begin:end] for begin, end in pairwise(borders)]
    if count <= most:
        return windows
    return [windows[number] for number in np.linspace(0, count - 1, most).round().astype(int)]


Precision = Literal["float32", "int8"]

_RUNTIME = "com.microsoft"  # onnxruntime's own operators: fused attention and activation
# Without TF32, whose products have 10 bits, vectors are those of the CPU to some 1e-5.
_PROVIDERS: Mapping[str, list[Any]] = {CPU: [CPU], CUDA: [(CUDA, {"use_tf32": "0"}), CPU]}
_LEVELS = 63  # of a coded weight: two products of 7 and 8 bits still fit 16 bits, where some processors' sums saturate


class Bert:
    """The encoder of one weights file: token ids in, sentence vectors out. Safe to call from several threads, and
    starts none: a question is too short to be shared among cores, and the cores have more questions, or batches, to
    work at beside each other."""

    def __init__(
        self,
        weights: Weights,
        precision: Precision = "float32",
        graphs: GraphCache | None = None,
        device: Device = "cpu",
    ) -> None:
        """Load the model (about 0.05 s on the CPU); the graph is kept in `graphs`. In int8 a question takes 0.7 of the
        time, for a vector with a cosine of some 0.998 to that of float32. Raises ModelError: the file is not a float32
        BERT encoder, or CUDA is demanded and cannot be used."""
        import onnxruntime as ort

        provider = provider_of(device)
        tensors = read_header(weights.tensors)
        graph = _kept_graph(graphs, tensors, weights, precision)
        options = ort.SessionOptions()
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(weights.tensors.parent)
        )
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = ort.InferenceSession(graph, options, providers=_PROVIDERS[provider])
        except Exception as error:  # onnxruntime's own exceptions share no public base
            raise ModelError(f"{weights.tensors} cannot be run as a BERT encoder ({error})") from error
        self.is_on_gpu = self._session.get_providers()[0] == CUDA
        if provider == CUDA and not self.is_on_gpu:  # onnxruntime falls back and raises nothing
            refused(device, "onnxruntime-gpu does not find its CUDA and cuDNN libraries")
        self.dimension = int(
            read_header(weights.dense)["linear.weight"].shape[0] if weights.dense else tensors[_WORDS].shape[1]
        )

    def __call__(self, ids: NDArray[np.int64], lengths: NDArray[np.int32]) -> NDArray[np.float32]:
        """Normalized vectors [n, dimension] of token ids [n, longest], padded on the right, with their lengths [n]."""
        vectors: NDArray[np.float32] = self._session.run(None, {"ids": ids, "lengths": lengths})[0]
        return vectors


def provider_of(device: Device) -> str:
    """Return the execution provider for a device on this machine. Raises ModelError: CUDA is required and missing."""
    import onnxruntime as ort

    provider = chosen_provider(device, ort.get_available_providers())
    note_unused_gpu(device, provider)
    return provider


def _kept_graph(
    graphs: GraphCache | None, tensors: Mapping[str, Tensor], weights: Weights, precision: Precision
) -> bytes:
    """Return the encoder's graph, cached by its inputs: weights, shape, precision, and this very code."""

    def make() -> bytes:
        return bert_graph(tensors, weights.shape, weights.tensors, precision, weights.dense)

    if graphs is None:
        return make()
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return graphs.get(f"{weights.name} {weights.tensors.name} {weights.shape} {precision} {code}", make)


@dataclass(frozen=True)
class Tensor:
    """A tensor's byte range in its file."""

    shape: list[int]
    offset: int
    length: int
    is_half: bool = False


_BYTES = {"F32": 4, "F16": 2}


def read_header(path: Path) -> dict[str, Tensor]:
    """Return the float32 and float16 tensors of a safetensors file, by name without the prefix `bert.`. Layout: 8 bytes
    little-endian header length, a JSON header, the tensors' bytes (https://huggingface.co/docs/safetensors). Tensors of
    other types are left out. Raises ModelError: the file is missing, truncated, or something else."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= size - 8:
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(length))
        start = 8 + length
        tensors = {}
        for name, entry in header.items():
            if name != "__metadata__" and (kind := entry["dtype"]) in _BYTES:
                begin, length = start + entry["data_offsets"][0], _bytes_of(entry)
                tensors[name.removeprefix("bert.")] = Tensor(entry["shape"], begin, length, kind == "F16")
        if any(tensor.offset + tensor.length > size for tensor in tensors.values()):
            raise ValueError("it is truncated")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path} is not a readable safetensors file ({error}); fetch it again") from error
    return tensors


def _bytes_of(entry: Mapping[str, Any]) -> int:
    begin, end = entry["data_offsets"]
    length = int(end - begin)
    if begin < 0 or length != _BYTES[entry["dtype"]] * int(np.prod(entry["shape"])):
        raise ValueError("a tensor's size is not that of its shape")
    return length


_WORDS = "embeddings.word_embeddings.weight"


class _Graph:
    def __init__(self, tensors: Mapping[str, Tensor], file: Path) -> None:
        self.nodes: list[bytes] = []
        self.initializers: dict[str, bytes] = {}
        self._tensors, self._file = tensors, file

    def op(self, kind: str, *inputs: str, domain: str = "", output: str | None = None, **attributes: Any) -> str:
        """Add a node; returns the name of its output."""
        name = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(onnx_format.node(kind, inputs, name, domain, **attributes))
        return name

    def weight(self, name: str) -> str:
        """Return the name of a tensor of the weights file; half precision becomes float32 when the graph is opened."""
        tensor = self._tensor(name)
        stored, kind = (f"{name}.half", onnx_format.FLOAT16) if tensor.is_half else (name, onnx_format.FLOAT)
        if stored not in self.initializers:
            place = {"location": self._file.name, "offset": str(tensor.offset), "length": str(tensor.length)}
            self.initializers[stored] = onnx_format.external_tensor(stored, kind, tensor.shape, place)
            if tensor.is_half:
                self.op("Cast", stored, output=name, to=onnx_format.FLOAT)
        return name

    def values(self, name: str) -> NDArray[np.float32]:
        """Return a tensor of the weights file, mapped into memory."""
        tensor = self._tensor(name)
        kind = np.float16 if tensor.is_half else np.float32
        return np.memmap(self._file, kind, "r", tensor.offset, (*tensor.shape,)).astype(np.float32, copy=False)

    def constant(self, name: str, value: int | list[int]) -> str:
        """Name a small integer constant."""
        return self.array(name, np.array(value, np.int64))

    def array(self, name: str, values: NDArray[Any]) -> str:
        """Name an array that is not in the weights file."""
        self.initializers[name] = onnx_format.tensor(name, values)
        return name

    def _tensor(self, name: str) -> Tensor:
        if name not in self._tensors:
            raise ModelError(f"the weights lack the float32 or float16 tensor {name!r}; only BERT encoders run locally")
        return self._tensors[name]

    def product(self, x: str, layer: str) -> str:
        """x Wᵀ: torch keeps [out, in]; a transposing product spares the transposed copy."""
        return self.op("FusedMatMul", x, self.weight(f"{layer}.weight"), domain=_RUNTIME, transB=1)

    def linear(self, x: str, layer: str) -> str:
        return self.op("Add", self.product(x, layer), self.weight(f"{layer}.bias"))

    def bias(self, layers: Sequence[str]) -> str:
        """Return the biases of several layers, one behind the other: attention adds those of its inputs itself."""
        name = f"{','.join(layers)}.bias"
        return self.array(name, np.concatenate([self.values(f"{layer}.bias") for layer in layers]))

    def layer_norm(self, x: str, layer: str, epsilon: float) -> str:
        scale, bias = self.weight(f"{layer}.weight"), self.weight(f"{layer}.bias")
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)


class _ByteGraph(_Graph):
    """A graph that multiplies bytes: weights of 7 bits, on a scale for each output; activations of 8, on one scale for
    all tokens, computed on the fly. Two things bring the vectors much nearer to those of float32, for a few hundredths
    of the time: value projections, which go straight into the sentence's vector, stay as they are, and tokens are
    levelled before each product."""

    def __init__(self, tensors: Mapping[str, Tensor], file: Path) -> None:
        super().__init__(tensors, file)
        self._levels: dict[str, tuple[str, str]] = {}

    def product(self, x: str, layer: str) -> str:
        if layer.endswith(".self.value"):
            return super().product(x, layer)
        rows, largest = self._levelled(x)
        coded = self.op("DynamicQuantizeMatMul", rows, *self._coded(f"{layer}.weight"), domain=_RUNTIME)
        return self.op("Mul", coded, largest)

    def _levelled(self, x: str) -> tuple[str, str]:
        """Return x with every token's largest component at 1, and the original: otherwise one token's maximum would
        leave few levels to the others."""
        if x not in self._levels:
            tiny = self.array("smallest_float", np.array(np.finfo(np.float32).tiny))
            largest = self.op("Max", self.op("ReduceMax", self.op("Abs", x), axes=[-1], keepdims=1), tiny)
            self._levels[x] = self.op("Div", x, largest), largest
        return self._levels[x]

    def _coded(self, name: str) -> tuple[str, str]:
        """Return a weight as bytes [in, out], and the scale of each output [out]."""
        weight = self.values(name)
        scales = np.maximum(np.abs(weight).max(axis=1), np.finfo(np.float32).tiny) / np.float32(_LEVELS)
        codes = np.ascontiguousarray(np.rint(weight / scales[:, None]).astype(np.int8).T)
        return self.array(f"{name}.codes", codes), self.array(f"{name}.scales", scales)


def bert_graph(
    tensors: Mapping[str, Tensor], shape: Shape, file: Path, precision: Precision, dense: Path | None = None
) -> bytes:
    """Return the serialized encoder: inputs `ids` [n, s] and `lengths` [n], output `vectors` [n, d] of length one. BERT
    (Devlin et al. 2019, https://arxiv.org/abs/1810.04805) with post-layer normalization and exact GELU; mean pooling
    over the real tokens or the first token, then a linear layer if there is one, then L2 (Reimers & Gurevych 2019,
    https://arxiv.org/abs/1908.10084). Raises ModelError: a tensor is missing."""
    graph = _Graph(tensors, file) if precision == "float32" else _ByteGraph(tensors, file)
    mask = _mask(graph)
    x = _embeddings(graph, shape)
    layers = 0
    while f"encoder.layer.{layers}.attention.self.query.weight" in tensors:
        x = _layer(graph, x, mask, f"encoder.layer.{layers}", shape)
        layers += 1
    if layers == 0:
        raise ModelError("the weights have no float32 or float16 encoder layers; only BERT encoders run locally")
    is_mean = shape.pooling == "mean"
    pooled = _mean(graph, x, mask) if is_mean else graph.op("Gather", x, graph.constant("zero", 0), axis=1)
    if dense:
        pooled = _linear(graph, pooled, dense, shape)
    graph.op("LpNormalization", pooled, output="vectors", axis=-1, p=2)
    inputs = [
        onnx_format.described("ids", onnx_format.INT64, ["n", "s"]),
        onnx_format.described("lengths", onnx_format.INT32, ["n"]),
    ]
    outputs = [onnx_format.described("vectors", onnx_format.FLOAT, ["n", "d"])]
    return onnx_format.model("bert", graph.nodes, [*graph.initializers.values()], inputs, outputs, _RUNTIME)


def _mask(graph: _Graph) -> str:
    """Return which positions are real tokens, int32 [n, s]."""
    length = graph.op("Squeeze", graph.op("Shape", "ids", start=1, end=2), graph.constant("axis_0", [0]))
    positions = graph.op("Range", graph.constant("zero", 0), length, graph.constant("one", 1))
    limits = graph.op("Cast", graph.op("Unsqueeze", "lengths", graph.constant("axis_1", [1])), to=onnx_format.INT64)
    return graph.op("Cast", graph.op("Less", positions, limits), to=onnx_format.INT32)


def _embeddings(graph: _Graph, shape: Shape) -> str:
    words = graph.op("Gather", graph.weight(_WORDS), "ids")
    segment = graph.op("Gather", graph.weight("embeddings.token_type_embeddings.weight"), graph.constant("zero", 0))
    length = graph.op("Shape", "ids", start=1, end=2)
    table = graph.weight("embeddings.position_embeddings.weight")
    positions = graph.op("Slice", table, graph.constant("axis_0", [0]), length)
    total = graph.op("Add", graph.op("Add", words, segment), positions)
    return graph.layer_norm(total, "embeddings.LayerNorm", shape.epsilon)


def _layer(graph: _Graph, x: str, mask: str, layer: str, shape: Shape) -> str:
    attention = f"{layer}.attention"
    parts = [f"{attention}.self.{part}" for part in ("query", "key", "value")]
    products = [graph.product(x, part) for part in parts]
    mixed = graph.op("MultiHeadAttention", *products, graph.bias(parts), mask, domain=_RUNTIME, num_heads=shape.heads)
    x = graph.op("Add", x, graph.linear(mixed, f"{attention}.output.dense"))
    x = graph.layer_norm(x, f"{attention}.output.LayerNorm", shape.epsilon)
    inner = graph.product(x, f"{layer}.intermediate.dense")
    inner = graph.op("BiasGelu", inner, graph.weight(f"{layer}.intermediate.dense.bias"), domain=_RUNTIME)
    x = graph.op("Add", x, graph.linear(inner, f"{layer}.output.dense"))
    return graph.layer_norm(x, f"{layer}.output.LayerNorm", shape.epsilon)


def _mean(graph: _Graph, x: str, mask: str) -> str:
    """Return the sum over real tokens: L2 follows, so the count divides out."""
    weights = graph.op("Unsqueeze", graph.op("Cast", mask, to=onnx_format.FLOAT), graph.constant("axis_2", [2]))
    return graph.op("ReduceSum", graph.op("Mul", x, weights), graph.constant("axis_1", [1]), keepdims=0)


def _linear(graph: _Graph, pooled: str, dense: Path, shape: Shape) -> str:
    """Return the vectors after the dense layer of a separate file, which is embedded in the graph (1 MB)."""
    layer = _Graph(read_header(dense), dense)
    if shape.pooling == "mean":  # a bias is added to the mean, not to the sum
        lengths = graph.op("Cast", "lengths", to=onnx_format.FLOAT)
        pooled = graph.op("Div", pooled, graph.op("Unsqueeze", lengths, graph.constant("axis_1", [1])))
    weight = graph.array("dense.weight", np.ascontiguousarray(layer.values("linear.weight").T))
    product = graph.op("MatMul", pooled, weight)
    if "linear.bias" not in read_header(dense):
        return product
    return graph.op("Add", product, graph.array("dense.bias", layer.values("linear.bias")))
