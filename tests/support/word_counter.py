"""A cross-encoder without weights, for tests of what stands around it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from rag_serving.rerank_service.cross_encoder import Pair

NAME = "tiny"


class WordCounter:
    """A model without weights: the score of a passage is how many of the query's words it has."""

    max_seq_len = 512

    def __init__(self) -> None:
        self.runs = 0
        self.broken: Exception | None = None
        self.may_run = threading.Event()
        self.may_run.set()

    def encode(self, query: str, passages: Sequence[str], max_seq_len: int) -> list[Pair]:
        words = query.split()
        return [{"input_ids": [passage.split().count(word) for word in words][:max_seq_len]} for passage in passages]

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        self.may_run.wait(20)
        self.runs += 1
        if self.broken:
            raise self.broken
        return [float(sum(pair["input_ids"])) for pair in pairs]
