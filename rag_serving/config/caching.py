"""Answers that are given again: to whom, for how long, how alike two questions must be.

Belongs here: keys, types, defaults. Does not belong here: what must be equal in two questions
(`caching.question_signature`), earlier answers for when search fails (`config.phases`).
"""

from __future__ import annotations

from pydantic import Field

from rag_serving.config.sources import Section


class Cache(Section):
    """Answers that a question gets again, in other words too, without a search and without a model."""

    semantic: bool = False
    """Give a confident answer again to the same question, however it is worded, as long as the same generation is
    published. A hit takes some milliseconds: worth it where a language model writes answers, which takes seconds."""
    shared: bool = False
    """Give it to everyone with the same reader classes. Where false, only to the user who asked: nobody can tell by the
    time of an answer what somebody else asked."""
    min_similarity: float = Field(0.8, ge=-1, le=1)
    """Cosine similarity of two wordings of a question; numbers, names, negations and all other words that count must be
    equal anyway."""
    max_answers: int = Field(1_000, ge=1, le=100_000)
    """Answers that are kept in memory for each tenant, in each process."""
    max_bytes: int = Field(16_000_000, ge=10_000)
    """Bytes that they may take."""
    max_age_s: float = Field(3_600, gt=0)
    """Seconds after which an answer is made anew."""
