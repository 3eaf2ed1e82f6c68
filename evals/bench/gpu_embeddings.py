"""Measure embedding of passages through the product's own code: tokens, batches, vectors, the tenant's cache.

Belongs here: passages, builds with an empty cache, rates. Does not belong here: bare geometries and the ceiling of the
machine (`gpu`).
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_assets.embedding_usage import build_vectors
from rag_serving.config.loading import parse_config
from rag_serving.models import open_embedder
from rag_serving.models.embedding.device import Device

TENANT = "bench"


@dataclass(frozen=True)
class EmbeddingRow:
    """One measurement: a build that embeds so many texts and keeps their vectors."""

    provider: str
    model: str
    device: str
    batch_tokens: int
    texts: int
    words: int
    texts_per_s: float
    words_per_s: float


@dataclass(frozen=True)
class Passages:
    """Passages of random words between two lengths, the same each time."""

    count: int = 4096
    shortest: int = 40
    longest: int = 240
    vocabulary: Sequence[str] = ("word",)

    def texts(self) -> list[str]:
        draw = random.Random(21)
        lengths = [draw.randint(self.shortest, self.longest) for _ in range(self.count)]
        return [
            f"{number} " + " ".join(draw.choices(self.vocabulary, k=length)) for number, length in enumerate(lengths)
        ]


def embedding_rows(
    provider: str, model: str, device: Device, passages: Passages, batches: Sequence[int]
) -> Iterator[EmbeddingRow]:
    """Yield what a build takes with each size of a batch, in tokens; the model is open and warm."""
    texts = passages.texts()
    words = sum(len(text.split()) for text in texts)
    for tokens in batches:
        seconds = _build_s(provider, model, device, tokens, texts)
        rates = round(len(texts) / seconds, 1), round(words / seconds, 1)
        yield EmbeddingRow(provider, Path(model).name, device, tokens, len(texts), words, *rates)


def _build_s(provider: str, model: str, device: Device, batch_tokens: int, texts: Sequence[str]) -> float:
    """Return the seconds in which a build embeds texts into an empty cache, as the asset `embeddings` does."""
    settings = {"provider": provider, "model": model, "device": device, "batch_tokens": batch_tokens}
    with tempfile.TemporaryDirectory(prefix="citelock-gpu-") as home:
        config = parse_config({"home": home, "tenants": {TENANT: {}}, "embedding": settings})
        embedder = open_embedder(config.embedding)
        embedder.embed_documents(texts[:64])
        with build_vectors(config, TENANT, embedder, _Nobody(), _say_nothing) as build:
            started = time.perf_counter()
            build.vectors.embed(embedder, texts, None, texts)
            return time.perf_counter() - started


class _Nobody:
    """No observer."""

    def expect(self, pages: Sequence[str]) -> None:
        """Ignore them."""

    def count(self, computed: Sequence[tuple[str, str]]) -> None:
        """Ignore them."""

    def flush(self) -> None:
        """Keep nothing."""


def _say_nothing(_: str) -> None:
    """Nobody reads the log of a bench."""


def tell_row(row: EmbeddingRow, tell: Callable[[str], None]) -> None:
    """Say a measurement in one line."""
    tell(
        f"{row.provider:<14} {row.model:<20} {row.device:<5} batch of {row.batch_tokens:>6} tokens  "
        f"{row.texts_per_s:>9.1f} texts/s  {row.words_per_s:>11.1f} words/s"
    )
