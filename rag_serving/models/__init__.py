"""Models behind Protocols: importing this package loads none of them."""

from __future__ import annotations

from rag_serving.models.embedding.factory import open_embedder, open_input_limit, open_tokenizer
from rag_serving.models.protocols import Embedder, InputLimit, ModelError, Progress, Tokenizer

__all__ = [
    "Embedder",
    "InputLimit",
    "ModelError",
    "Progress",
    "Tokenizer",
    "open_embedder",
    "open_input_limit",
    "open_tokenizer",
]
