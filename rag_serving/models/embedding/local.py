"""The embedding model that runs in this process.

Belongs here: windows over long texts, batches of like length, the average of windows.
Does not belong here: the encoder itself (`onnx_bert`), its files (`weights`), vectors that are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_serving.concurrency import cores
from rag_serving.models.embedding.device import CPU, Device
from rag_serving.models.embedding.graph_cache import GraphCache
from rag_serving.models.embedding.onnx_bert import Bert, Precision, provider_of
from rag_serving.models.embedding.prompts import prompts_digest
from rag_serving.models.embedding.token_batches import CPU_TOKENS, GPU_TOKENS, batch_slices
from rag_serving.models.embedding.tokenizer import load_tokenizer
from rag_serving.models.embedding.weights import Weights
from rag_serving.models.protocols import ModelError, Progress

MAX_WINDOWS = 8
_RECIPE = 1  # how windows become a vector; part of the name, so that a change does not mix with cached vectors
_MAX_THREADS = 16
_GPU_THREADS = 2  # one batch is prepared while another is computed


@dataclass(frozen=True)
class _Window:
    """Token ids, special tokens included, of a part of a text."""

    text: int
    ids: list[int]


_Batch = Sequence[_Window]


class LocalSettings(NamedTuple):
    """How texts are embedded; see `embedding` in the configuration."""

    query_prompt: str = ""
    document_prompt: str = ""
    batch_size: int = 16
    query_precision: Precision = "float32"
    device: Device = "cpu"
    batch_tokens: int | None = None


_DEFAULTS = LocalSettings()


class LocalEmbedder:
    """A BERT sentence encoder in float32, for passages on a GPU where there is one; for questions in int8 if asked for.

    A text longer than the encoder reads at once is cut into contiguous windows of equal size, whose vectors are
    averaged by their token counts and normalized again, so that it is not judged by its beginning alone; passages that
    are much longer come window by window (`rag_assets.steps.contexts.embedded_windows`).
    Of more than `MAX_WINDOWS` windows that many, evenly spread and with both ends, are embedded.
    """

    def __init__(self, weights: Weights, settings: LocalSettings = _DEFAULTS, graphs: GraphCache | None = None) -> None:
        """Load the model.

        Raises:
            ModelError: the files cannot be run.
        """
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
        """Return vectors [n, dimension] in the order of the texts, equal to 1e-6 whatever else is embedded beside
        them."""
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
        """The encoder of passages, opened with the first one: who only searches needs no second one in memory."""
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
        """Return the vectors [count, dimension] of so many texts."""
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
    """Yield the batches in their order with their vectors, as many at once as there are cores; on a GPU, two."""
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
