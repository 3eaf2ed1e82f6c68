"""Folders that are made once in a test session, by whichever of its processes needs one first."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock


@dataclass(frozen=True)
class SharedFolders:
    """Folders below pytest's temporary folder of this session; tests read them, or copy what they change."""

    root: Path

    @classmethod
    def of(cls, factory: pytest.TempPathFactory) -> SharedFolders:
        """Return the folders that all workers of this session share."""
        base = factory.getbasetemp()
        return cls(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)

    def get(self, name: str, make: Callable[[Path], object]) -> Path:
        """Return the folder of this name; `make` fills the empty folder, once in a session."""
        folder, made = self.root / name, self.root / f"{name}.made"
        with FileLock(self.root / f"{name}.lock"):
            if not made.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                made.touch()
        return folder
