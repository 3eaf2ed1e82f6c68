"""How many tokens a text has, where nobody else counted them.

Belongs here: counting with the local model's tokenizer. Does not belong here: what a language model's server counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

from rag_serving.config.models import Embedding
from rag_serving.models.embedding.factory import installed_tokenizer
from rag_serving.models.protocols import Tokenizer

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
