"""Files on their way from the store to a folder: whole under the name of their digest, or not there.

Belongs here: fetching, comparing with digests, what a killed process leaves. Does not belong here: which files are
fetched (`shared_folder`), requests to the store (`objects`), the names of objects (`trees`).

A file that was compared with its digest waits below `.fetched` until all are there, and then all are moved in. So a
process that is killed on the way leaves files that the next one does not fetch again, and a folder that is as it was.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from citelock_scale.object_home.trees import FileFact
from rag_serving.shared_home import ObjectHomeError

FOLDER = ".fetched"
"""Of a shared folder; what begins with a dot is this machine's own."""
Blocks = Callable[[FileFact], Iterable[bytes]]
Altered = Callable[[FileFact], ObjectHomeError]
_LAST = ("published.json", "current")
_BLOCK_BYTES = 8 << 20


class Downloads:
    """Fetches files of one shared folder. One process of a machine at a time does so."""

    def __init__(self, folder: Path, parallel: int, blocks: Blocks, altered: Altered) -> None:
        """`blocks` yields the content of a file from the store, `altered` gives the error of one that is another."""
        self._folder, self._parallel, self._blocks, self._altered = folder, parallel, blocks, altered
        self._waiting = folder / FOLDER

    def fetch(self, files: Mapping[str, FileFact], local: Mapping[str, Path]) -> None:
        """Fetch files, and move them in once all are there, those that name others last. `local`: files of this
        machine by the digest that they should have.

        Raises:
            ObjectHomeError: one cannot be fetched, or is not what its digest says; the folder is as it was.
            OSError: the disk does not take it.
        """
        facts = {fact.digest: fact for fact in files.values()}
        self._clear(set(facts))
        if not files:
            return
        self._waiting.mkdir(parents=True, exist_ok=True)
        try:
            with ThreadPoolExecutor(self._parallel) as threads:
                begun = [threads.submit(self._download, fact, local.get(fact.digest)) for fact in facts.values()]
                try:
                    for done in begun:
                        done.result()
                except BaseException:
                    threads.shutdown(wait=False, cancel_futures=True)
                    raise
            self._move_in(files)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self._clear(())  # whatever else writes to this disk needs it more
            raise
        self._clear(())

    def _move_in(self, files: Mapping[str, FileFact]) -> None:
        uses = Counter(fact.digest for fact in files.values())
        for path in sorted(files, key=lambda path: _LAST.index(path) if path in _LAST else -1):
            digest, target = files[path].digest, self._folder / path
            source = self._waiting / digest
            uses[digest] -= 1
            if uses[digest]:
                source = Path(shutil.copyfile(source, source.with_suffix(".copy")))
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)

    def _download(self, fact: FileFact, local: Path | None) -> None:
        target = self._waiting / fact.digest
        with suppress(OSError):
            if target.stat().st_size == fact.size:
                return  # compared before it was given this name
        if local is not None:
            with suppress(OSError):
                if self._is_written(target, fact, _blocks_of(local)):
                    return
        if not self._is_written(target, fact, self._blocks(fact)):
            raise self._altered(fact)

    def _is_written(self, target: Path, fact: FileFact, blocks: Iterable[bytes]) -> bool:
        """Write a file beside its name, and give it the name where it is what its digest says."""
        part = target.with_name(f"{secrets.token_hex(4)}.part")
        try:
            made, size = hashlib.sha256(), 0
            with part.open("wb") as file:
                for block in blocks:
                    made.update(block)
                    size += len(block)
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            if (made.hexdigest(), size) != fact:
                return False
            part.replace(target)
            return True
        finally:
            part.unlink(missing_ok=True)

    def _clear(self, kept: Iterable[str]) -> None:
        """Delete what waits and is not needed any more, and what killed processes left half."""
        names = set(kept)
        for place in self._waiting.glob("*"):
            if place.name not in names:
                place.unlink(missing_ok=True)
        with suppress(OSError):
            self._waiting.rmdir()


def _blocks_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield block
