"""The section `keyword`: how the keyword tier reads questions, and when it is sure of what it found.

Belongs here: keys, types, defaults. Does not belong here: acting on them (`retrieval.keyword`).
"""

from __future__ import annotations

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
    stop_words: list[str] = Field(_STOP_WORDS.split())
    """Words that are removed from a question."""
    empty_words: list[str] = Field(_EMPTY_WORDS.split())
    """Further words without a meaning of their own."""
    min_score: float = Field(3, ge=0)
    """Score that the best document needs, else a question back. Below, a clarifying question is asked."""
    min_conf: float = Field(0.3, ge=0, le=1)
    """(best - second) / best, below which a question is ambiguous."""
    min_gap: float = Field(2, ge=0)
    """Lead over the second document below which the question is ambiguous."""
    min_matched_terms: int = Field(2, ge=0)
    """Words of the question that the best document needs; an exact phrase in its title counts as two."""
    top_k: int = Field(5, ge=1, le=50)
    """Documents (phase 1) or chunks (phase 2) used for an answer."""
    max_per_document: int = Field(2, ge=1, le=50)
    """Most chunks of one document among them; if a question asks about two things, for each of the two."""
