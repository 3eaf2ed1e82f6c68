"""Which words are words, for whoever would call them misspelt: those that a model's vocabulary has whole.

Belongs here: asking the tokenizer. Does not belong here: corrections (`query.spelling`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rag_serving.models.embedding.factory import installed_tokenizer
from rag_serving.models.protocols import Tokenizer

if TYPE_CHECKING:
    from rag_serving.config.models import Embedding
    from rag_serving.models.embedding.graph_cache import GraphCache


class Words:
    """The words of the local model's vocabulary, opened when first asked. Safe to use from several threads."""

    def __init__(self, config: Embedding, graphs: GraphCache | None = None) -> None:
        self._config, self._graphs = config, graphs

    def __call__(self, word: str) -> bool:
        """Return whether a word in lower case is one token; where no tokenizer can be opened, no word is known."""
        return self._tokenizer is not None and len(self._tokenizer.offsets([word])[0]) == 1

    @cached_property
    def _tokenizer(self) -> Tokenizer | None:
        return installed_tokenizer(self._config, self._graphs)
