"""The last good answers of one tenant, in the memory of this process, for when no phase of retrieval answers.

Belongs here: which answers are kept, how many, to whom one may be shown again, and how that is said.
Does not belong here: when there is no other answer (`pipeline`), who may read a page now (`published_readers`), answers
that are given again while all is well (`answer_cache`).

An answer is shown again to the same question only, to whoever had the same reader classes in the generation it was
made of: nobody gets what was found for somebody who may read more, or less. While that generation is published, nothing
more is asked. Of another generation's answer every page that was locked for it must still be open to the reader as a
whole, by what is published now; where that cannot be told, it is not shown. Nothing is written to a disk, and nothing
outlives the process.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from rag_serving.access.principals import Principal, satisfied_classes
from rag_serving.caching.bounded import BoundedEntries, bare, size_of
from rag_serving.config.phases import Degradation
from rag_serving.records.answers import Answer
from rag_serving.records.flags import CACHED, CACHED_OLDER, FINDINGS
from rag_serving.records.refusal import Clarification

MayRead = Callable[[frozenset[str]], bool]
"""Whether the reader may read all of some pages as they are published now."""


@dataclass(frozen=True)
class Asking:
    """A question whose answer is kept, or looked for: who asks, and all that the answer depends on beside the pages."""

    principal: Principal
    text: str
    scope: Mapping[str, object]  # filters and the like, as JSON has them

    @property
    def key(self) -> bytes:
        """Return a digest of the question as it is compared: no text of it is kept."""
        text = " ".join(unicodedata.normalize("NFKC", self.text).casefold().split()).rstrip(" ?!.")
        told = json.dumps([self.principal.tenant, text, self.scope], sort_keys=True, default=repr)
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).digest()

    @property
    def asker(self) -> bytes:
        """Return a digest of who asks."""
        return hashlib.sha256(repr(self.principal.user).encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True)
class Source:
    """What an answer was made of: the reader classes of its generation, those that its asker satisfies, the pages of
    its passages."""

    known: frozenset[str]
    classes: frozenset[str]
    pages: frozenset[str]


@dataclass(frozen=True)
class _Kept:
    answer: Answer
    source: Source
    asker: bytes
    at: float


class KeptAnswers:
    """The answers of one tenant. Safe to use from several threads."""

    def __init__(self, settings: Degradation, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._kept: BoundedEntries[tuple[bytes, frozenset[str]], _Kept] = BoundedEntries(
            settings.cached_answers, settings.cached_bytes
        )
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """The bytes that all of them take, as they are counted."""
        return self._kept.size

    def put(self, asking: Asking, answer: Answer, source: Source) -> None:
        """Keep an answer where it is a good one: told with confidence, and nothing was degraded."""
        if not self._settings.cached_answers or answer.outcome != "told" or not FINDINGS.issuperset(answer.flags):
            return
        kept = _Kept(bare(answer), source, asking.asker, self._clock())
        with self._lock:
            self._kept.put((asking.key, source.classes), kept, size_of(kept.answer))

    def get(self, asking: Asking, published: str, may_read: MayRead) -> Answer | None:
        """Return the newest answer that may be shown, which says how old it is; None where there is none.

        `published`: the id of the generation that is published now.
        """
        wanted = asking.key
        with self._lock:
            found = [kept for (question, _), kept in self._kept.items() if question == wanted]
        fitting = [kept for kept in found if self._fits(asking.principal, kept)]
        for kept in sorted(fitting, key=lambda kept: -kept.at):
            is_same = kept.answer.generation == published
            if is_same or may_read(kept.source.pages):
                return self._shown(kept, is_same, kept.asker == asking.asker)
        return None

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._kept.clear()

    def _fits(self, principal: Principal, kept: _Kept) -> bool:
        if self._clock() - kept.at > self._settings.cached_max_age_s:
            return False
        return satisfied_classes(principal, principal.tenant, kept.source.known) == kept.source.classes

    def _shown(self, kept: _Kept, is_same: bool, is_own: bool) -> Answer:
        """Return an answer that says that it is an earlier one. Who asked it alone may open its receipt; the other
        places of a passage are told of the generation they were seen in only."""
        answer, age = kept.answer, told_age(self._clock() - kept.at)
        text = f"Search is not available at the moment. This is the answer that the same question had {age} ago"
        text += "." if is_same else (
            f", from another version of the pages (generation {answer.generation}). They may have changed since."
        )  # fmt: skip
        citations = answer.citations
        if not is_same:
            citations = tuple(replace(citation, also_at=()) for citation in citations)
        return replace(
            answer,
            citations=citations,
            clarification=Clarification(text),
            receipt_id=answer.receipt_id if is_own else None,
            flags=(*answer.flags, CACHED if is_same else CACHED_OLDER),
            phase=None,
            usage=None,
        )


def told_age(seconds: float) -> str:
    """Return a span of time in words, in its largest whole unit."""
    for name, count in _in_units(seconds):
        if count:
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "less than a minute"


def _in_units(seconds: float) -> Iterator[tuple[str, int]]:
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        yield name, int(seconds // length)
