"""A folder that tests of a process share, and that none of them may alter."""

from __future__ import annotations

import os
from pathlib import Path

Stamps = dict[str, tuple[int, int]]


class UnalteredFolder:
    """Notices which files were written, made or deleted, but for those that whoever reads the folder writes."""

    def __init__(self, folder: Path, *written: str) -> None:
        """`written`: what the names of those begin with, below the folder."""
        self.folder, self._written = folder, written
        self._stamps = self._read()

    def alterations(self) -> list[str]:
        """Return the names of files that are not as they were when this was asked last."""
        before, self._stamps = self._stamps, self._read()
        names = before.keys() | self._stamps.keys()
        return sorted(name for name in names if before.get(name) != self._stamps.get(name))

    def _read(self) -> Stamps:
        found: Stamps = {}
        for place, _, files in os.walk(self.folder):
            for file in files:
                path = Path(place, file)
                name = path.relative_to(self.folder).as_posix()
                if not name.startswith(self._written):
                    stat = path.stat()
                    found[name] = stat.st_size, stat.st_mtime_ns
        return found
