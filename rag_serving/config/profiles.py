"""Profiles: named sets of settings for kinds of text, which each source names one of.

Belongs here: what a profile may set, and what the three of them are. Does not belong here: acting on a setting.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, model_validator

from rag_serving.config.sources import ProfileName, Section, SourceBase

DEFAULT_OF_KIND: Mapping[str, ProfileName] = {"markdown_book": "book", "docs_folder": "docs"}
"""The profile of a source that names none; other kinds are `wiki`."""


class Profile(Section):
    """Settings of one kind of text. What is null is as `ingestion` says."""

    chunk_size_tokens: int | None = Field(None, ge=32, le=4096)
    """Tokens that parts of a longer section aim at; null: `ingestion.chunk_size_tokens`."""
    chunk_min_tokens: int | None = Field(None, ge=1, le=4096)
    """A part has fewer only where its section allows no other; null: 0.48 of the aim."""
    chunk_max_tokens: int | None = Field(None, ge=32, le=8192)
    """A part has more only where its section allows no other, and a section up to here is one chunk; null: 1.28 of the
    aim."""
    chunk_stride_tokens: int | None = Field(None, ge=0, le=1024)
    """Tokens of overlap: neighbouring text that is kept beside a chunk, and never cited from there; null:
    `ingestion.chunk_stride_tokens`."""
    keep_runs: bool = False
    """Never cut a list or a table that fits into a chunk. Code stays whole in every profile."""
    pool: int = Field(10, ge=1, le=100)
    """Best passages of which those are chosen that stand near each other, for a question to the books alone (`mode:
    book-wide`, which only `profiles.book` is asked by)."""
    passages: int = Field(5, ge=1, le=50)
    """Passages that such a question is answered from, in the order of the book."""
    min_similarity: float | None = Field(None, ge=-1, le=1)
    """Cosine similarity that the nearest passage needs in such a question, however many of its words it has; null: 0.7
    where `embedding` is one of OpenAI's text-embedding-3 models, whose scale this is of, else the gates' own."""
    min_confidence: float | None = Field(None, ge=0, le=1)
    """Confidence that an answer to such a question needs to be told; null: 0.6 with the same models, else the gates'
    own."""
    warn_without_words: bool = True
    """Flag an answer to such a question whose passages have none of its words."""

    @model_validator(mode="after")
    def _in_order(self) -> Profile:
        given = (self.chunk_min_tokens, self.chunk_size_tokens, self.chunk_max_tokens)
        sizes = [size for size in given if size is not None]
        if sizes != sorted(sizes):
            raise ValueError("chunk_min_tokens, chunk_size_tokens and chunk_max_tokens must ascend")
        return self


class Profiles(Section):
    """What the profiles that sources name stand for: by default `book` for kind markdown_book, `docs` for docs_folder,
    `wiki` for all others."""

    wiki: Profile = Profile()
    """Short passages of pages that people look things up in."""
    docs: Profile = Profile()
    """Documentation sites."""
    book: Profile = Profile(
        chunk_size_tokens=750,
        chunk_min_tokens=500,
        chunk_max_tokens=1000,
        chunk_stride_tokens=100,
        keep_runs=True,
    )
    """Text that is read in order: long passages with overlap."""

    def of(self, source: SourceBase) -> Profile:
        """Return the profile of a source."""
        profile: Profile = getattr(self, self.name_of(source))
        return profile

    def name_of(self, source: SourceBase) -> ProfileName:
        """Return the name of a source's profile: its own, or that of its kind."""
        return source.profile or DEFAULT_OF_KIND.get(str(getattr(source, "kind", "")), "wiki")
