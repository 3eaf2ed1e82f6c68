"""The model of the sidecar while it is loaded, working, or failing.

Belongs here: loading in the background, a request's way from text to scores, the state that the probes tell.
Does not belong here: HTTP (`api`), tokens and tensors (`cross_encoder`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Literal, Protocol

from rag_serving.config.reranking import RerankService
from rag_serving.escaping.targets import one_line
from rag_serving.rerank_service.batches import score_all
from rag_serving.rerank_service.cross_encoder import Pair
from rag_serving.rerank_service.metrics import Meters
from rag_serving.rerank_service.queueing import MicroBatcher

State = Literal["loading", "ok", "failing"]

_log = logging.getLogger(__name__)


class Model(Protocol):
    """What the sidecar needs of a model; `cross_encoder.CrossEncoder` is one."""

    @property
    def max_seq_len(self) -> int: ...

    def encode(self, query: str, passages: Sequence[str], max_seq_len: int) -> list[Pair]: ...

    def score(self, pairs: Sequence[Pair]) -> list[float]: ...


class NotReadyError(Exception):
    """The model cannot be used now; the message says why."""


class Engine:
    """Loads the model in a thread of its own, then scores in another. Safe to use from several threads."""

    def __init__(
        self, open_model: Callable[[], Model], settings: RerankService, meters: Meters, on_failure: Callable[[], None]
    ) -> None:
        """`on_failure` is called when the model cannot be opened: nothing will ever be scored."""
        self._open_model = open_model
        self._settings = settings
        self._meters = meters
        self._on_failure = on_failure
        self._model: Model | None = None
        self._batcher: MicroBatcher[Pair] | None = None
        self.problem: str | None = None

    def start(self) -> None:
        """Begin to load; returns at once."""
        threading.Thread(target=self._load, name="rerank-load", daemon=True).start()

    @property
    def state(self) -> State:
        if self.problem or (self._batcher and self._batcher.is_failing(self._settings.timeout_s)):
            return "failing"
        return "ok" if self._batcher else "loading"

    @property
    def max_seq_len(self) -> int:
        """Tokens of a pair that the model reads.

        Raises:
            NotReadyError: there is no model yet.
        """
        return self._ready()[0].max_seq_len

    def submit(self, query: str, passages: Sequence[str], max_seq_len: int) -> Future[list[float]]:
        """Return the scores of the passages in their order, later.

        Raises:
            NotReadyError: there is no model yet.
        """
        model, batcher = self._ready()
        return batcher.submit(model.encode(query, passages, max_seq_len))

    def close(self) -> None:
        """Finish what was submitted."""
        if self._batcher:
            self._batcher.close(self._settings.timeout_s)

    def _ready(self) -> tuple[Model, MicroBatcher[Pair]]:
        if self._model is None or self._batcher is None:
            raise NotReadyError(self.problem or "the model is being loaded")
        return self._model, self._batcher

    def _load(self) -> None:
        try:
            model = self._open_model()
            model.score(model.encode("warm", ["warm"], model.max_seq_len))
        except Exception as error:  # whatever a library raises, the probes must tell it
            self.problem = one_line(error, 1000) or type(error).__name__
            self._on_failure()
            return
        self._model = model
        self._batcher = MicroBatcher(self._run, self._settings.max_candidates, self._settings.batch_wait_ms / 1000)

    def _run(self, pairs: Sequence[Pair]) -> list[float]:
        model, _ = self._ready()
        lengths = [len(pair["input_ids"]) for pair in pairs]
        started = time.perf_counter()
        try:
            scores = score_all(pairs, lengths, model.score, self._settings.batch_size, self._settings.batch_tokens)
        except Exception as error:
            self._meters.failures.inc()
            _log.error("a run of %d pairs failed: %s", len(pairs), error)
            raise
        self._meters.run_seconds.observe(time.perf_counter() - started)
        self._meters.run_pairs.observe(len(pairs))
        self._meters.pairs.inc(len(pairs))
        self._meters.tokens.inc(sum(lengths))
        return scores
