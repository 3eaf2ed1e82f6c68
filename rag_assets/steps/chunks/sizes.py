"""How long chunks are: what a source's profile asks for, as cutting needs it.

Belongs here: the bounds of a chunk's length. Does not belong here: cutting (`chunking`), which profile a source has.
"""

from __future__ import annotations

from dataclasses import dataclass

from rag_serving.config.profiles import Profile
from rag_serving.config.sections import Ingestion


@dataclass(frozen=True)
class ChunkSize:
    """Lengths in tokens.

    Attributes:
        aim: what parts of a longer section aim at.
        least: a shorter one is made only where a section allows no other.
        most: the same of a longer one; a section up to here stays one chunk.
        stride: of the neighbouring text that is kept on either side as context, never citable.
        keeps_runs: whether lists and tables that fit into a chunk are never cut.
    """

    aim: int
    least: int
    most: int
    stride: int
    keeps_runs: bool = False

    @classmethod
    def about(cls, aim: int, stride: int) -> ChunkSize:
        """Return the bounds that short passages have around an aim: 0.48 and 1.28 of it."""
        return cls(aim, aim * 12 // 25, aim * 32 // 25, stride)

    @classmethod
    def of(cls, profile: Profile, ingestion: Ingestion) -> ChunkSize:
        """Return what a profile asks for."""
        stride = profile.chunk_stride_tokens
        usual = cls.about(
            profile.chunk_size_tokens or ingestion.chunk_size_tokens,
            ingestion.chunk_stride_tokens if stride is None else stride,
        )
        least, most = profile.chunk_min_tokens or usual.least, profile.chunk_max_tokens or usual.most
        return cls(usual.aim, min(least, usual.aim), max(most, usual.aim), usual.stride, profile.keep_runs)


DEFAULT = ChunkSize.about(250, 75)
