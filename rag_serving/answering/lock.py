"""The lock: the final passages frozen as `[1..N]`. Nothing after it can retrieve, nothing outside it can be cited."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rag_serving.answering.selection.completion import sharing
from rag_serving.records.passages import Candidate, Chunk, Lock


def freeze(candidates: Iterable[Candidate], count: int) -> Lock:
    """Return the first `count` candidates that can be cited: each chunk once, none whose link lacks an anchor."""
    passages: dict[str, Candidate] = {}
    for candidate in candidates:
        if len(passages) == count:
            break
        if has_anchor(candidate.chunk.url):
            passages.setdefault(candidate.chunk.chunk_id, candidate)
    return Lock(tuple(passages.values()))


def completed(lock: Lock, beside: Callable[[Chunk, int], Chunk | None]) -> Lock:
    """Return the lock, and at its end the passages that its lists of steps began in or run on into. `beside` gives the
    passage before (-1) or after (1) another that the asker may read, else None."""
    passages = {candidate.chunk.chunk_id: candidate for candidate in lock.passages}
    for candidate in lock.passages:
        for chunk in sharing(candidate.chunk, beside):
            if has_anchor(chunk.url):
                passages.setdefault(chunk.chunk_id, Candidate(chunk, candidate.score, {"steps": candidate.score}))
    return Lock(tuple(passages.values()))


def has_anchor(url: str) -> bool:
    """Return whether a link lands on a section: it has a fragment that is not empty."""
    return bool(url.partition("#")[2])


def lock_selection(selection: str) -> Lock:
    """Selected text as the only passage; its link is the selection itself."""
    title, end = "Selected text", len(selection)
    place = "selection:0:0", "selection", 0, 0, "", title, (title,), "selection", "#selection"
    chunk = Chunk(*place, selection, 0, end, "paragraph")
    return freeze([Candidate(chunk, 1.0)], 1)
