"""The interfaces of models to the rest of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rag_serving.escaping.redaction import RedactedError

PACKAGED = Path(__file__).with_name("packaged")
"""Where our own wheel has weights and the model of languages; a checkout has no such folder (`scripts/dist.py`)."""

Progress = Callable[[int, int], None]
"""Called with (texts done, texts in all)."""


class ModelError(RedactedError):
    """A model cannot be opened or does not answer; the message is one line that says how to mend it."""


class ContextTooLongError(ModelError):
    """The messages have more tokens than the model reads."""


class Tokenizer(Protocol):
    """Counts text the way the embedding model does."""

    @property
    def name(self) -> str:
        """The identity of the tokenizer: another name may cut chunks elsewhere."""
        ...

    def offsets(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """Per text an array [tokens, 2] of character offsets (start, end): no special tokens, nothing truncated."""
        ...


class InputLimit(NamedTuple):
    """The input length of an embedding model: so many of these tokens, without its own and the prompt's."""

    tokenizer: Tokenizer
    tokens: int


class Embedder(Protocol):
    """Turns text into vectors of length one."""

    @property
    def name(self) -> str:
        """provider/model@revision plus further inputs of a vector: the key for caching and comparing vectors. Raises
        ModelError: only a server knows the revision, and it does not answer."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector; one request to a remote model. Raises ModelError: the model does not answer."""
        ...

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        """Return vectors [n, dimension] in the order of the texts. Raises ModelError: none come, or nonsense."""
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector [dimension] of a question; fails fast, because somebody waits. Raises ModelError: the model
        does not answer, or answers nonsense."""
        ...

    def check(self) -> str:
        """Return the model's state in one line. Raises ModelError: it is unusable; the message says how to fix it."""
        ...
