"""Pages that a wiki named in events, and sources that were just connected: noted by whoever serves, until a sync has
read them. A note says where to look, and nothing of what is there: the same page is noted once however often it is
named."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from rag_serving.artifacts.store import Store, StoreError, read_json, write_bytes, write_json
from rag_serving.config.loading import Config
from rag_serving.config.sources import Confluence

EVERYTHING = "all"
"""The note that all of the source is to be read."""
MOST = 1000
"""Pages that may be noted; one more is EVERYTHING."""
PAGE_ID = re.compile(r"\d{1,20}", re.ASCII)


class NotedPages:
    """The notes of one source."""

    def __init__(self, source: Path) -> None:
        """`source`: the folder of the source (`Store.source`)."""
        self._new, self._taken = source / "noted", source / "noted" / "taken"
        self._progress = self._new / "progress.json"

    def note(self, page_ids: Collection[str]) -> None:
        """Note pages by id, or EVERYTHING. Noted pages need not be noted again: a sync takes its notes before it reads
        any page. Raises OSError: the disk does not take it."""
        there = _names(self._new)
        if EVERYTHING in there:
            return
        is_much = EVERYTHING in page_ids or len(there.union(page_ids)) > MOST
        for name in [EVERYTHING] if is_much else sorted(set(page_ids) - there):
            write_bytes(self._new / name, b"")

    def take(self) -> frozenset[str]:
        """Return the pages to read, under the source's lock; they stay noted until `forget`."""
        for name in _names(self._new):
            self._taken.mkdir(exist_ok=True)
            (self._new / name).replace(self._taken / name)
        taken = _names(self._taken)
        if len(taken) <= MOST:
            return taken
        write_bytes(self._taken / EVERYTHING, b"")
        self._remove(taken - {EVERYTHING})
        return frozenset({EVERYTHING})

    def forget(self) -> None:
        """Forget the pages taken: they were read."""
        self._remove(_names(self._taken))
        self._progress.unlink(missing_ok=True)

    def show(self, step: str, **more: object) -> None:
        """Tell operators how far a sync of everything is: `done` of `total`, or the `error` that ended it."""
        write_json(self._progress, {"step": step, **more})

    def progress(self) -> Mapping[str, Any] | None:
        """Return how far a sync of everything is; None if none is due."""
        with suppress(StoreError):
            if self._progress.exists():
                progress: Mapping[str, Any] = read_json(self._progress)
                return progress
            if EVERYTHING in _names(self._new) | _names(self._taken):
                return {"step": "waiting"}
        return None

    def mark(self) -> str | None:
        """Return how much is noted, with a digest that is another one for other notes; None if nothing is."""
        found = {name: folder / name for folder in (self._taken, self._new) for name in _names(folder)}
        stamps = []
        for name, path in sorted(found.items()):
            with suppress(FileNotFoundError):  # taken or forgotten meanwhile
                stamps.append((name, path.stat().st_mtime_ns))
        what = EVERYTHING if EVERYTHING in found else f"{len(stamps)} pages"
        return f"{what} noted {sha256(repr(stamps).encode()).hexdigest()[:16]}" if stamps else None

    def stamp(self) -> int:
        """Return a value that changes whenever a page is noted: one `stat` of a folder."""
        try:
            return self._new.stat().st_mtime_ns
        except OSError:
            return 0

    def _remove(self, names: Collection[str]) -> None:
        for name in names:
            (self._taken / name).unlink(missing_ok=True)


def noted_pages(config: Config) -> Mapping[str, NotedPages]:
    """Return the notes of each source that hears of events."""
    store = Store(config.home)
    return {
        key: NotedPages(store.source(key))
        for key, settings in config.sources.items()
        if isinstance(settings, Confluence) and settings.webhook
    }


def _names(folder: Path) -> frozenset[str]:
    """Return the notes in a folder; its other files are being written or not ours."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return frozenset(
            entry.name for entry in folder.iterdir() if entry.name == EVERYTHING or PAGE_ID.fullmatch(entry.name)
        )
    return frozenset()
