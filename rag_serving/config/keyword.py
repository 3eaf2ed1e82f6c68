"""The section `keyword`: how the keyword tier reads questions, and when it is sure of what it found.

Belongs here: keys, types, defaults. Does not belong here: acting on them (`retrieval.keyword`).
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from rag_serving.config.sources import Section

_STOP_WORDS = "a an the is what how my do"
_EMPTY_WORDS = """
i me you we us he she it they them this that these those here there one ones thing things stuff something anything
everything our your his her its their of to in on at for from with by about into and or but if so as are am was were be
been does did done can could may might must should would will shall have has had get got where when who whom which why
please
"""


class Keyword(Section):
    """The keyword search: phases 1 (documents) and 2 (chunks), which need neither vectors nor a model."""

    synonyms: dict[str, str] = Field({})
    """Replacements of a question's words or phrases, in every phase; phrases are replaced before words."""
    concepts: list[str] = Field([])
    """Terms that are never read as plurals or misspelt."""
    stop_words: ClassVar[list[str]] = _STOP_WORDS.split()  # words that are removed from a question
    empty_words: ClassVar[list[str]] = _EMPTY_WORDS.split()  # further words without a meaning of their own
    # Score that the best document needs, else a question back. Below, a clarifying question is asked.
    min_score: ClassVar[float] = 3
    min_conf: ClassVar[float] = 0.3  # (best - second) / best, below which a question is ambiguous
    min_gap: ClassVar[float] = 2  # lead over the second document below which the question is ambiguous
    # Words of the question that the best document needs; an exact phrase in its title counts as two.
    min_matched_terms: ClassVar[int] = 2
    top_k: ClassVar[int] = 5  # documents (phase 1) or chunks (phase 2) used for an answer
    # Most chunks of one document among them; if a question asks about two things, for each of the two.
    max_per_document: ClassVar[int] = 2
