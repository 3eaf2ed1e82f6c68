"""The local model's vocabulary: which words are whole in it, and the number of tokens of a text.

Belongs here: calls of the tokenizer. Does not belong here: corrections (`query.spelling`), a language model's own
counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from rag_serving.config.models import Embedding
from rag_serving.models.embedding.factory import installed_tokenizer
from rag_serving.models.protocols import Tokenizer

if TYPE_CHECKING:
    from rag_serving.config.models import Embedding
    from rag_serving.models.embedding.graph_cache import GraphCache


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
