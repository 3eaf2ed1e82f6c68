"""Profiles: named sets of settings for kinds of text, which each source names one of.

Belongs here: what a profile may set, and what the three of them are. Does not belong here: acting on a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from rag_serving.config.sources import ProfileName, Section, SourceBase

DEFAULT_OF_KIND: Mapping[str, ProfileName] = {"markdown_book": "book", "docs_folder": "docs"}
"""The profile of a source that names none; other kinds are `wiki`."""


class Profile(Section):
    """Settings for one kind of text. Values that are null are taken from `ingestion`."""

    chunk_size_tokens: int | None = Field(None, ge=32, le=4096)
    """Target size in tokens for the parts of a long section; null: `ingestion.chunk_size_tokens`."""
    # Smallest size of a part, unless its section allows no other; null: 0.48 of the target size.
    chunk_min_tokens: ClassVar[int | None] = None
    # Largest size of a part, unless its section allows no other; a section up to this size is one chunk. null:
    # 1.28 of the target size.
    chunk_max_tokens: ClassVar[int | None] = None
    chunk_stride_tokens: int | None = Field(None, ge=0, le=1024)
    """Tokens of overlap, never cited; null: `ingestion.chunk_stride_tokens`."""
    # Never cut a list or table that fits. Code is kept whole in every profile.
    keep_runs: ClassVar[bool] = False
    pool: ClassVar[int] = 10  # book questions: best passages from which close ones are chosen
    passages: ClassVar[int] = 5  # book questions: passages of an answer, in the book's order


class BookProfile(Profile):
    """Settings for text that is read from beginning to end."""

    chunk_min_tokens = 500
    chunk_max_tokens = 1000
    keep_runs = True
    min_similarity: float | None = Field(None, ge=-1, le=1)
    """Book questions: cosine similarity that the nearest passage needs; null: 0.7 if `embedding` is one of OpenAI's
    text-embedding-3 models, for whose scale this is, otherwise the value of `gates`."""
    min_confidence: float | None = Field(None, ge=0, le=1)
    """Book questions: confidence that an answer needs; null: 0.6 with the same models, otherwise the value of
    `gates`."""
    warn_without_words: ClassVar[bool] = True  # book questions: flag answers whose passages lack the question's words


class Profiles(Section):
    """Definitions of the profiles that sources name. By default a source of kind markdown_book uses `book`, docs_folder
    uses `docs`, and all others use `wiki`."""

    wiki: Profile = Profile()
    """Short passages, for pages in which people look things up."""
    docs: Profile = Profile()
    """Documentation sites."""
    book: BookProfile = BookProfile(chunk_size_tokens=750, chunk_stride_tokens=100)
    """Text that is read from beginning to end: long passages with overlap."""

    def of(self, source: SourceBase) -> Profile:
        """Return the profile of a source."""
        profile: Profile = getattr(self, self.name_of(source))
        return profile

    def name_of(self, source: SourceBase) -> ProfileName:
        """Return the name of a source's profile: its own, or that of its kind."""
        return source.profile or DEFAULT_OF_KIND.get(str(getattr(source, "kind", "")), "wiki")
