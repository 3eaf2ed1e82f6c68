"""Answers that are given again: to whom, for how long, how alike two questions must be.

Belongs here: keys, types, defaults. Does not belong here: what must be equal in two questions
(`caching.answers`), earlier answers for when search fails (`config.phases`).
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from rag_serving.config.sources import Section


class Cache(Section):
    """Reuse of answers to the same question, also in other words, without a search and without a model."""

    semantic: bool = False
    """Reuse confident answers for the same question, however worded. A hit takes a few milliseconds: useful if a
    language model writes answers, which takes seconds."""
    shared: bool = False
    """Reuse them for all users with the same reader classes. If false, only for the user who asked, so that the time of
    an answer does not reveal what others asked."""
    # Cosine similarity that two wordings of a question need; numbers, names, negations and all other significant
    # words must always be equal.
    min_similarity: ClassVar[float] = 0.8
    max_answers: ClassVar[int] = 1_000  # answers kept in memory for each tenant, in each process
    max_bytes: ClassVar[int] = 16_000_000  # bytes that these answers may take
    max_age_s: float = Field(3_600, gt=0)
    """Seconds after which an answer is no longer reused."""
