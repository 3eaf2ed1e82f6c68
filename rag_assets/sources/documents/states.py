"""How far each uploaded document is, for those who uploaded it.

Belongs here: writing states at a bounded rate. Does not belong here: what a state means (`documents.records`), deciding
that a document is published (`rag_assets.publishing.documents`).
"""

from __future__ import annotations

import time

from rag_serving.documents.inbox import Inbox
from rag_serving.documents.records import ReadState, Stage

LEAST_PAUSE_S = 0.25
"""Seconds between two writes: nobody reads faster."""


class StateWriter:
    """The states of an inbox's documents; used by one build at a time, which holds the source's lock."""

    def __init__(self, inbox: Inbox) -> None:
        self._files = inbox.files
        self._states = {name: entry.state for name, entry in inbox.entries().items() if entry.state}
        self._written = self._dumped()
        self._last = float("-inf")

    def __getitem__(self, name: str) -> ReadState | None:
        return self._states.get(name)

    def set(
        self, name: str, version: int, stage: Stage, reason: str | None = None, pages: tuple[int, int] | None = None
    ) -> None:
        """Note the stage of a document; it is written soon, or by `flush`."""
        before = self._states.get(name)
        page, of = pages or (None, None)
        shown = before.shown if before else None
        self._states[name] = ReadState(version=version, stage=stage, page=page, of=of, reason=reason, shown=shown)
        if time.monotonic() - self._last >= LEAST_PAUSE_S:
            self.flush()

    def embedded(self, name: str, texts: int, of: int) -> None:
        """Note how many of the texts of a document that is being embedded are so; written by `flush`."""
        if state := self._states.get(name):
            self._states[name] = state.model_copy(update={"embedded": texts, "texts": of})

    def put(self, states: dict[str, ReadState]) -> None:
        """Replace all states, those that are not named included."""
        self._states = states
        self.flush()

    def flush(self) -> None:
        """Write what changed."""
        now = self._dumped()
        if now != self._written:
            self._files.write_states(now)
            self._written = now
        self._last = time.monotonic()

    def _dumped(self) -> dict[str, dict[str, object]]:
        return {name: state.model_dump(mode="json") for name, state in self._states.items()}
