"""The answers of one tenant that a question gets again, in the memory of this process.

Belongs here: which answers are kept, under which key, how near two wordings must be. Does not belong here: what must be
equal in two wordings (`question_signature`), receipts and rows of an answer that is given again
(`pipeline.memory`), earlier answers for when search fails (`kept_answers`).

An answer is found again only in the scope that it was made in: the same generation, the same reader classes of it, the
same settings and filters and, unless answers are shared, the same user. Nothing is written to a disk, and of a question
only digests and its vector are kept.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_serving.caching.bounded import BYTES_PER_CHARACTER, BoundedEntries, bare, size_of
from rag_serving.caching.question_signature import digest_of, signature_of
from rag_serving.config.caching import Cache
from rag_serving.records.answers import Answer
from rag_serving.records.flags import FINDINGS
from rag_serving.records.passages import Lock

Vector = NDArray[np.float32]
VectorOf = Callable[[], Vector | None]
"""Gives the vector of the question that is asked, of length 1; None where the model does not answer."""


@dataclass(frozen=True)
class Scope:
    """All that an answer depends on beside its question.

    Attributes:
        user: who may have it again; None: everyone with the same reader classes.
        classes: the reader classes of the generation that the asker satisfies.
        settings: switches, phase and filters, as JSON has them.
    """

    tenant: str
    user: str | None
    generation: str
    classes: frozenset[str]
    settings: Mapping[str, Any]

    @property
    def digest(self) -> bytes:
        said = [self.tenant, self.user, self.generation, sorted(self.classes), self.settings]
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=repr).encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True)
class CachedAnswer:
    """An answer with what it was made of: its receipt as it was made, and the passages without their text."""

    answer: Answer
    receipt: Mapping[str, Any]
    lock: Lock


@dataclass(frozen=True)
class _Entry:
    cached: CachedAnswer
    text: bytes
    vector: Vector | None
    at: float


class AnswerCache:
    """The answers of one tenant. Safe to use from several threads."""

    def __init__(self, settings: Cache, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._entries: BoundedEntries[bytes, _Entry] = BoundedEntries(settings.max_answers, settings.max_bytes)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """The bytes that all of them take, as they are counted."""
        return self._entries.size

    def put(self, scope: Scope, question: str, cached: CachedAnswer, vector_of: VectorOf) -> bool:
        """Keep an answer where it is a good one: told with confidence, and nothing was degraded; return whether."""
        answer = cached.answer
        if answer.outcome != "told" or not FINDINGS.issuperset(answer.flags):
            return False
        kept = CachedAnswer(bare(answer), cached.receipt, cached.lock)
        vector = vector_of()
        size = size_of(kept.answer) + BYTES_PER_CHARACTER * len(json.dumps(kept.receipt)) + _bytes_of(vector)
        entry = _Entry(kept, _exact(question), vector, self._clock())
        with self._lock:
            return self._entries.put(_key(scope, question), entry, size)

    def get(self, scope: Scope, question: str, vector_of: VectorOf) -> CachedAnswer | None:
        """Return the answer of a question that was asked before in the same scope, in words that come to the same."""
        key = _key(scope, question)
        with self._lock:
            entry = self._entries.get(key)
            if entry and self._clock() - entry.at > self._settings.max_age_s:
                self._entries.drop(key)
                entry = None
        if entry is None or not (entry.text == _exact(question) or self._is_near(entry, vector_of)):
            return None
        return entry.cached

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._entries.clear()

    def _is_near(self, entry: _Entry, vector_of: VectorOf) -> bool:
        vector = None if entry.vector is None else vector_of()
        if vector is None or entry.vector is None or vector.shape != entry.vector.shape:
            return False
        return float(vector @ entry.vector) >= self._settings.min_similarity


def _key(scope: Scope, question: str) -> bytes:
    signature = signature_of(question)
    asked = b"=" + _exact(question) if signature is None else b"~" + digest_of(signature)
    return hashlib.sha256(scope.digest + asked).digest()


def _exact(question: str) -> bytes:
    return hashlib.sha256(" ".join(question.split()).encode("utf-8", "surrogatepass")).digest()


def _bytes_of(vector: Vector | None) -> int:
    return 0 if vector is None else vector.nbytes
