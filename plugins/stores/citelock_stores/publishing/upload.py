"""Sending what a server holds of a generation, in batches.

Belongs here: batches, going on with what a killed process had sent.
Does not belong here: the points (`generation_points`), the requests (`qdrant_upload`), comparing
what was sent (`point_checks`), trying again (`remote`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from citelock_stores.publishing.generation_points import GenerationPoints, RawPoint
from citelock_stores.remote.repeated_requests import RepeatedRequests
from rag_serving.config.loading import Config

BATCH = 100
LISTED = 10_000
"""Ids of one answer."""

NumberedPoint = tuple[int, RawPoint]


@dataclass(frozen=True)
class Uploaded:
    """What an upload did. `present`: points that were there already; `repeats`: requests that were sent again."""

    points: int
    batches: int
    present: int
    repeats: int
    seconds: float


class Upload(ABC):
    """One generation on its way to its collection."""

    def __init__(
        self, requests: RepeatedRequests[Any], collection: str, points: GenerationPoints, config: Config
    ) -> None:
        self.collection = collection
        self._requests, self._points = requests, points
        self._patience_s = config.index.publish_timeout_s
        self._name = points.manifest.tenant, points.manifest.id

    @abstractmethod
    def _ensure_collection(self) -> None:
        """Make the collection and its indexes, where they are not there."""

    @abstractmethod
    def _present(self, kind: str) -> set[int]:
        """Return the numbers of the points of a kind that are there."""

    @abstractmethod
    def _put(self, kind: str, points: Sequence[NumberedPoint]) -> None:
        """Send points of a kind."""

    @abstractmethod
    def _finish(self, began: float) -> None:
        """Wait until what was sent can be searched; `began`: when sending did, of `time.monotonic`."""

    def send(self, progress: Callable[[int, int], None] | None = None, resend: bool = False) -> Uploaded:
        """Send every point that is not there yet; `resend`: also those that are there, in whose place they are put.
        `progress` hears of (points, all points).

        Raises:
            RemoteError: the server does not take them.
        """
        began = time.monotonic()
        self._ensure_collection()
        if not self._present("manifest"):  # one that is published already stays whole while it is mended
            self._put("manifest", [(0, RawPoint(self._points.manifest_payload(complete=False), {}))])
        sent, batches, everything = 0, 0, sum(self._points.counts.values())
        present = {kind: set[int]() if resend else self._present(kind) for kind in self._points.counts}
        done = sum(len(numbers) for numbers in present.values())
        for kind, count in self._points.counts.items():
            size = self._points.batch_sizes.get(kind, BATCH)
            for numbers in _batches([number for number in range(count) if number not in present[kind]], size):
                self._put(kind, [*zip(numbers, self._points.of(kind, numbers), strict=True)])
                sent, batches = sent + len(numbers), batches + 1
                if progress:
                    progress(done + sent, everything)
        self._finish(began)
        return Uploaded(sent, batches, done, self._requests.repeats, time.monotonic() - began)

    def complete(self) -> None:
        """Say that the generation is there as a whole."""
        self._put("manifest", [(0, RawPoint(self._points.manifest_payload(complete=True), {}))])


def _batches(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]
