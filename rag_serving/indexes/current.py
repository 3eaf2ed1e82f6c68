"""The published generation, open for questions, exchanged for a newer one without losing any."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import RemoteError, ServedGeneration
from rag_serving.indexes.sources import FileStamps, FolderSource, GenerationSource, open_source
from rag_serving.models.breaker import Breaker

_log = logging.getLogger(__name__)


@dataclass
class Held:
    """An open generation and how many questions read it."""

    generation: ServedGeneration
    readers: int = 0
    retired: bool = False
    stamps: FileStamps = None


class Slot:
    """Holds at most one open generation. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.held: Held | None = None

    def holds(self, wanted: str) -> bool:
        """Return whether the generation of that id is the open one."""
        with self._lock:
            return self.held is not None and self.held.generation.id == wanted

    def take(self, wanted: str | None = None) -> Held | None:
        """Return the open generation with one reader more, if it is the wanted one, or whichever it is."""
        with self._lock:
            held = self.held
            if held is None or (wanted is not None and held.generation.id != wanted):
                return None
            held.readers += 1
        if held.generation.is_altered:
            self._withdraw(held)
            return None
        return held

    def release(self, held: Held) -> None:
        """Count one reader less; the last one of a generation that was exchanged closes it."""
        with self._lock:
            held.readers -= 1
            last = held.retired and held.readers == 0
        if last:
            held.generation.close()

    def exchange(self, generation: ServedGeneration | None, stamps: FileStamps = None) -> None:
        """Hold this generation from now on; the old one is closed after its last reader."""
        with self._lock:
            old, self.held = self.held, Held(generation, stamps=stamps) if generation is not None else None
            if old:
                old.retired = True
            idle = old is not None and old.readers == 0
        if old and idle:
            old.generation.close()

    def _withdraw(self, held: Held) -> None:
        """Stop answering from a generation whose files were written to; it is opened anew if they are intact."""
        self.release(held)
        with self._lock:
            if self.held is not held:
                return
            self.held, held.retired = None, True
            idle = held.readers == 0
        _log.error("generation %s was written to and is withdrawn", held.generation.id)
        if idle:
            held.generation.close()


RETRY_S = 5.0
BEING_OPENED = "the pages have just changed and are being opened; try again shortly"


class UnpublishedError(Exception):
    """The tenant has no generation that may answer; the message says how to mend it."""


@dataclass
class _Opening:
    """A generation that is being opened beside the questions."""

    began: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)


class CurrentGeneration:
    """The generation that one tenant's questions are answered from. Safe to use from several threads. What is published
    is looked at for every lease, and by `follow`, which a server calls again and again. A question waits until that is
    open, for `Serving.open_wait_s` since opening it began. Where that takes longer, or fails, the older one answers if
    the newer one takes no page from anybody who may read it in the older one; else the question is refused. What cannot
    be opened is tried again after RETRY_S seconds, and `problem` says why. `pinned` is the id of a generation to stay
    with, published or not, which is in a folder whatever `index` says."""

    def __init__(self, store: Store, tenant: str, config: Config, pinned: str | None = None) -> None:
        self._tenant, self._config = tenant, config
        self._source: GenerationSource = (
            FolderSource(store, tenant, config) if pinned else open_source(store, tenant, config)
        )
        self._pinned = pinned
        self._lock = threading.Lock()  # of what is under way
        self._opening = threading.Lock()  # one generation is opened at a time
        self._slot = Slot()
        self._under_way: dict[str, _Opening] = {}
        self._failed: tuple[str, Breaker] | None = None
        self._closed = self._is_source_down = False
        self._seen: str | None = None  # what was published when that was last read
        self.problem: str | None = None

    @contextmanager
    def acquire(self, on_stale: Callable[[], object] | None = None) -> Iterator[ServedGeneration]:
        """Yield the published generation, or an older one after a call of `on_stale`; it stays open until the block
        ends. Raises UnpublishedError: there is none that may answer."""
        held, stale = self._acquire()
        try:
            if stale and on_stale:
                on_stale()
            yield held.generation
        finally:
            self._slot.release(held)

    def lead_by(self, lead: Callable[[str], str]) -> None:
        """Let what is opened from now on lead to other addresses than were stored, if it is in a folder."""
        if isinstance(self._source, FolderSource):
            self._source.lead = lead

    def follow(self) -> None:
        """Begin to open the pointer's generation, unless it is open; returns at once. A generation never changes, but a
        damaged one is restored, or built again, under its id: then it is opened anew."""
        try:
            wanted = self._named()
        except UnpublishedError:
            return
        if not self._slot.holds(wanted):
            self._begin(wanted)
        elif self._restored() is not None:
            threading.Thread(target=self._open_restored, name=f"reopen-{wanted}", daemon=True).start()

    def refresh(self) -> None:
        """Open the pointer's generation, if it is not open yet, before returning."""
        try:
            self._open(self._named())
        except UnpublishedError:
            return

    def named(self) -> str | None:
        """Return the id of the published generation, open or not, as it was a moment ago where its database cannot
        answer; None if that is not known."""
        return self._pinned or self._source.last_named()

    def answers_from(self) -> Literal["published", "older", "none"]:
        """Return the id of the answering generation as of the last check; nothing is opened or read."""
        if self._slot.held is None:
            return "none"
        return "published" if self._seen is None or self._slot.holds(self._seen) else "older"

    def is_source_up(self) -> bool:
        """Return whether the publication could be read the last time; nothing is read."""
        return not self._is_source_down

    def is_database_away(self) -> bool:
        """Return whether pages come from a database that was readable and is not: then earlier answers are given."""
        return self._is_source_down and self._slot.held is not None and not isinstance(self._source, FolderSource)

    def refusal(self) -> str | None:
        """Return why a question that comes now is refused, or None. Waits for the first generation alone."""
        try:
            wanted = self._named()
            if self._slot.held is None:
                self._open(wanted)
            if not self._slot.holds(wanted) and self._has_failed(wanted):
                self._slot.release(self._older(wanted))
        except UnpublishedError as error:
            return self.problem or str(error)
        return None

    def close(self) -> None:
        """Let go of the generation; it is closed after its last reader."""
        self._closed = True
        self._slot.exchange(None)
        self._source.close()

    @contextmanager
    def stored(self, generation_id: str) -> Iterator[ServedGeneration]:
        """Yield a kept generation by its id, published or older. Raises UnpublishedError: it cannot be opened."""
        try:
            generation = self._source.open(generation_id)
        except (StoreError, RemoteError) as error:
            raise UnpublishedError(str(error)) from error
        try:
            yield generation
        finally:
            generation.close()

    def _named(self) -> str:
        """Return the id of the published generation. Raises UnpublishedError: there is none, or it cannot be read."""
        try:
            named = self._pinned or self._source.current()
        except StoreError as error:
            self.problem, self._is_source_down = str(error), True
            raise UnpublishedError(
                f"what is published for tenant {self._tenant!r} cannot be read; `citelock doctor` says why"
            ) from error
        self._seen, self._is_source_down = named, False
        if named is None:
            self.problem = f"nothing is published for tenant {self._tenant!r} yet; run `citelock build`"
            raise UnpublishedError(self.problem)
        return named

    def _acquire(self) -> tuple[Held, bool]:
        """Return the generation to answer from, which counts one reader more, and whether the pointer names another
        one. The pointer named it after the call began, unless it is an older one that may answer."""
        while True:
            wanted = self._named()
            if held := self._slot.take(wanted):
                self.problem = None
                return held, False
            if not self._await(wanted):
                held = self._older(wanted)
                return held, held.generation.id != wanted

    def _older(self, wanted: str) -> Held:
        """Return the open generation with one reader more, though another is wanted. Raises UnpublishedError: there is
        none, or it shows pages to more readers than the wanted one."""
        held = self._slot.take()
        if held is None:
            raise UnpublishedError(self._absence())
        if held.generation.id != wanted and self._source.narrows(held.generation.id, wanted):
            self._slot.release(held)
            raise UnpublishedError(self._absence() if self._has_failed(wanted) else BEING_OPENED)
        return held

    def _absence(self) -> str:
        """Return why there is nothing to acquire, without anything of the server's inside."""
        if self._failed:
            return f"generation {self._failed[0]} cannot be opened; `citelock doctor` says why"
        return f"nothing is published for tenant {self._tenant!r} yet; run `citelock build`"

    def _await(self, wanted: str) -> bool:
        """Wait until a generation is open, the first one for as long as it takes; False if it failed or is late."""
        if self._slot.held is None:
            self._open(wanted)
            return self._slot.holds(wanted)
        known_to_fail = self._has_failed(wanted)
        opening = self._begin(wanted)
        if opening is None or known_to_fail:
            return self._slot.holds(wanted)
        patience_s = opening.began + self._config.serving.open_wait_s - time.monotonic()
        return opening.done.wait(max(0.0, patience_s)) and not self._has_failed(wanted)

    def _begin(self, wanted: str) -> _Opening | None:
        """Open a generation in a thread; None if it is open or just failed."""
        with self._lock:
            if wanted in self._under_way:
                return self._under_way[wanted]
            if self._slot.holds(wanted) or self._has_failed(wanted, lately=True):
                return None
            opening = self._under_way[wanted] = _Opening()
        threading.Thread(target=self._open_beside, args=(wanted, opening), name=f"open-{wanted}", daemon=True).start()
        return opening

    def _open_beside(self, wanted: str, opening: _Opening) -> None:
        try:
            self._open(wanted)
        finally:
            with self._lock:
                self._under_way.pop(wanted, None)
            opening.done.set()

    def _open(self, wanted: str) -> None:
        """Open a generation and answer from it, unless it just failed or the pointer has moved on meanwhile."""
        with self._opening:
            if self._slot.holds(wanted) or self._has_failed(wanted, lately=True):
                return
            try:
                generation = self._source.open(wanted)
            except Exception as error:  # a damaged file may raise anything, and questions wait for this
                problem = (
                    f"generation {wanted} cannot be opened: {' '.join(str(error).split()) or type(error).__name__}"
                )
                if problem != self.problem:
                    _log.error("%s", problem)
                breaker = Breaker(failures=1, reset_s=RETRY_S)
                breaker.fail()
                self._failed, self.problem = (wanted, breaker), problem
                self._stand_in(wanted)
                return
            if self._closed or self._is_outdated(wanted):
                generation.close()
                return
            self._failed, self.problem = None, None
            self._show(generation)

    def _show(self, generation: ServedGeneration) -> None:
        self._slot.exchange(generation, self._source.stamps(generation))

    def _restored(self) -> FileStamps:
        """Return the open generation's stamps on disk, if no file is missing and one is another than at opening."""
        held = self._slot.held
        stamps = self._source.stamps(held.generation) if held else None
        return stamps if held and stamps != held.stamps else None

    def _open_restored(self) -> None:
        """Open the same generation anew; if that fails, the open one stays until the files change again."""
        with self._opening:
            held, stamps = self._slot.held, self._restored()
            if held is None or stamps is None:
                return
            held.stamps = stamps
            try:
                generation = self._source.open(held.generation.id)
            except Exception as error:  # a damaged file may raise anything
                _log.error("generation %s has other files now and cannot be opened: %s", held.generation.id, error)
                return
            if self._closed or self._is_outdated(generation.id):
                generation.close()
                return
            self._show(generation)

    def _stand_in(self, wanted: str) -> None:
        """If no generation is open, open the last one published before a broken one, unless that would widen access."""
        if self._slot.held is not None or self._pinned:
            return
        for generation_id in self._source.before(wanted):
            if self._source.narrows(generation_id, wanted):
                continue
            try:
                self._show(self._source.open(generation_id))
            except Exception:  # a damaged file may raise anything
                continue
            return

    def _has_failed(self, wanted: str, lately: bool = False) -> bool:
        failed = self._failed
        return failed is not None and failed[0] == wanted and (not lately or failed[1].state == "open")

    def _is_outdated(self, wanted: str) -> bool:
        try:
            return self._named() != wanted
        except UnpublishedError:
            return True
