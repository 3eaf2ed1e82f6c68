"""The configured embedding model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rag_serving.config.models import Embedding
from rag_serving.models.protocols import Embedder, InputLimit, ModelError, Tokenizer

if TYPE_CHECKING:
    import tokenizers
if TYPE_CHECKING:
    from rag_serving.config.models import Embedding
    from rag_serving.models.embedding.onnx_format import GraphCache
if TYPE_CHECKING:
    from rag_serving.config.models import Embedding
    from rag_serving.models.embedding.device import Device
    from rag_serving.models.embedding.flag_embedding import FlagEmbedder
    from rag_serving.models.embedding.local import LocalEmbedder, LocalSettings
    from rag_serving.models.embedding.onnx_format import GraphCache
    from rag_serving.models.embedding.weights import Weights


_SLICE_CHARS = 1_000_000  # encodings weigh about 100 bytes a character: they are made and dropped by the slice


def load_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """Open a tokenizer.json without its truncation and padding. Raises ModelError: it is missing or no tokenizer."""
    try:
        facts = path.stat()
        return _load(path, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    except Exception as error:  # the library raises plain Exception
        raise ModelError(f"{path} is not a readable tokenizer file ({error}); fetch it again") from error


@lru_cache(maxsize=2)
def _load(path: Path, *_facts: int) -> tokenizers.Tokenizer:
    """Return the tokenizer of a file as it is now: encoding changes none, so that the encoder and chunking share it."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


class FileTokenizer:
    """A tokenizer.json as chunking needs it."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._tokenizer = load_tokenizer(path)

    def offsets(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """Per text an array [tokens, 2] of character offsets, encoded on all cores (5 MB in about 1.2 s on two)."""
        return [
            _offsets(encoding)
            for part in _slices(texts)
            for encoding in self._tokenizer.encode_batch(part, add_special_tokens=False)
        ]


def _offsets(encoding: tokenizers.Encoding) -> NDArray[np.int32]:
    pairs = encoding.offsets
    return np.fromiter(chain.from_iterable(pairs), np.int32, count=2 * len(pairs)).reshape(-1, 2)


def _slices(texts: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for text in texts:
        part.append(text)
        size += len(text)
        if size >= _SLICE_CHARS:
            yield part
            part, size = [], 0
    if part:
        yield part


_CHARS_PER_TOKEN = 4


class TokenCount:
    """Counts tokens of the local model's vocabulary, whose tokenizer is opened when first needed."""

    def __init__(self, config: Embedding) -> None:
        self._config = config

    def __call__(self, texts: Iterable[str]) -> int:
        """Return the tokens of some texts; without a tokenizer a token for every four characters of a text."""
        texts = list(texts)
        if self._tokenizer is None:
            return sum(math.ceil(len(text) / _CHARS_PER_TOKEN) for text in texts)
        return sum(len(offsets) for offsets in self._tokenizer.offsets(texts))

    @cached_property
    def _tokenizer(self) -> Tokenizer | None:
        return installed_tokenizer(self._config)


class Words:
    """The words of the local model's vocabulary, opened on first use. Safe to use from several threads."""

    def __init__(self, config: Embedding, graphs: GraphCache | None = None) -> None:
        self._config, self._graphs = config, graphs

    def __call__(self, word: str) -> bool:
        """Return whether a word in lower case is one token; if no tokenizer can be opened, no word is known."""
        return self._tokenizer is not None and len(self._tokenizer.offsets([word])[0]) == 1

    @cached_property
    def _tokenizer(self) -> Tokenizer | None:
        return installed_tokenizer(self._config, self._graphs)


_SPECIAL = 2  # tokens that BERT and XLM-RoBERTa put before and behind a text
OPENED_AT_ONCE = 2
"""Local models that a process keeps open: the steps of one build open the same model one after the other."""


def open_embedder(config: Embedding, graphs: GraphCache | None = None) -> Embedder:
    """Open the configured embedding model: about 0.3 s for a local one; a remote one is not contacted yet. `graphs`:
    the cache of the local model's graph and file digests between starts. Raises ModelError: the local model's files are
    missing or wrong, or a named API key is not set."""
    if config.provider == "ollama":
        from rag_serving.models.embedding.remote import OllamaEmbedder

        return OllamaEmbedder(config)
    if config.provider == "openai":
        from rag_serving.models.embedding.remote import OpenAIEmbedder

        return OpenAIEmbedder(config)
    if config.provider == "flagembedding":
        return _open_flag(config.model, config.device, config.query_prompt, config.document_prompt, config.batch_tokens)
    from rag_serving.models.embedding.local import LocalEmbedder, LocalSettings
    from rag_serving.models.embedding.weights import find_weights

    weights = find_weights(config.model, config.weights_dir, graphs.get if graphs else None)
    prompts = config.query_prompt, config.document_prompt
    settings = LocalSettings(*prompts, config.batch_size, config.query_precision, config.device, config.batch_tokens)
    if graphs is None:
        return _open_once(weights, weights.tensors.stat().st_mtime_ns, settings)
    return LocalEmbedder(weights, settings, graphs)


@lru_cache(OPENED_AT_ONCE)
def _open_once(weights: Weights, _changed_at: int, settings: LocalSettings) -> LocalEmbedder:
    from rag_serving.models.embedding.local import LocalEmbedder

    return LocalEmbedder(weights, settings)


@lru_cache(1)
def _open_flag(model: str, device: Device, query: str, document: str, batch_tokens: int | None) -> FlagEmbedder:
    from rag_serving.models.embedding.flag_embedding import FlagEmbedder

    return FlagEmbedder(model, device, (query, document), batch_tokens)


def open_tokenizer(config: Embedding, graphs: GraphCache | None = None) -> Tokenizer:
    """Open the tokenizer that chunks are measured with: the local model's. Servers do not share theirs, so with a
    remote model chunks are measured by the default local model's tokenizer; a chunk of 250 of its tokens is about as
    long for every common model. Raises ModelError: the local model's files are missing or wrong."""
    from rag_serving.models.embedding.factory import FileTokenizer
    from rag_serving.models.embedding.weights import MODEL, find_weights

    model = config.model if config.provider == "local" else MODEL
    weights = find_weights(model, config.weights_dir, graphs.get if graphs else None)
    return FileTokenizer(weights.tokenizer, weights.name)


def open_input_limit(config: Embedding) -> InputLimit | None:
    """Return how much the configured model reads at once; None for a server's, which reads whole passages or does not
    say. Raises ModelError: the local model's files are missing or wrong."""
    if config.provider == "flagembedding":
        return _flag_limit(config)
    if config.provider != "local":
        return None
    from rag_serving.models.embedding.factory import FileTokenizer
    from rag_serving.models.embedding.weights import find_weights

    weights = find_weights(config.model, config.weights_dir)
    prompt = config.document_prompt if config.query_prompt or config.document_prompt else weights.prompts[1]
    tokenizer = FileTokenizer(weights.tokenizer, weights.name)
    return InputLimit(tokenizer, weights.shape.max_tokens - len(weights.ends) - len(tokenizer.offsets([prompt])[0]))


def _flag_limit(config: Embedding) -> InputLimit | None:
    from rag_serving.models.embedding.factory import FileTokenizer
    from rag_serving.models.embedding.flag_embedding import flag_folder, flag_max_tokens

    folder = flag_folder(config.model)
    if not (folder / "tokenizer.json").is_file():
        return None  # longer passages are cut
    tokenizer = FileTokenizer(folder / "tokenizer.json", folder.name)
    prompt = len(tokenizer.offsets([config.document_prompt])[0])
    return InputLimit(tokenizer, flag_max_tokens(folder) - _SPECIAL - prompt)


def installed_tokenizer(config: Embedding, graphs: GraphCache | None = None) -> Tokenizer | None:
    """Return the same tokenizer, or None if it would have to be downloaded, for which no question waits."""
    from rag_serving.models.embedding.weights import packaged_folder

    if config.provider != "local" and not (config.weights_dir or packaged_folder()):
        return None
    try:
        return open_tokenizer(config, graphs)
    except ModelError:
        return None
