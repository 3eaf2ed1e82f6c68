"""The files of a shard's graph and their digests: Chroma itself does not notice a damaged one, or dies of it. Chroma
keeps each graph in files that it never changes once the shard is built. Reading a truncated or altered one can end the
process, so they are compared before Chroma reads them. A server's files are the server's own."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from rag_serving.artifacts.manifest import FileFacts, file_facts
from rag_serving.artifacts.store import StoreError, read_json

DATABASE = "chroma.sqlite3"
_NOTES = "shard-files"


def graph_folders(folder: Path) -> frozenset[str]:
    """Return the names of the folders with a graph; graphs added by a shard are its own."""
    found = (path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else ()
    return frozenset(path.name for path in found) - {_NOTES}


def file_fault(folder: Path, collection: str, thorough: bool = False) -> str | None:
    """Return the first fault of a collection's files; None if there is none, or nothing was noted. `thorough` compares
    the digest of every file, else sizes alone."""
    for name, facts in _noted(folder, collection).items():
        if fault := fault_of(folder / name, facts, thorough):
            return f"{name} {fault}"
    return None


def database_fault(folder: Path) -> str | None:
    """Return the fault of Chroma's database file; None if it is readable, or not written yet."""
    file = folder / DATABASE
    if not file.exists():
        return f"{DATABASE} is missing" if graph_folders(folder) else None
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=60)) as database:
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        if (getattr(error, "sqlite_errorcode", 0) & 0xFF) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return f"{DATABASE} is damaged ({error})"
    return None


def fault_of(path: Path, facts: FileFacts, thorough: bool) -> str | None:
    """Return how a file differs from its record; None if it does not."""
    try:
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            return "is missing"
        if size != facts.bytes:
            return f"has {size} bytes instead of {facts.bytes}"
        if thorough and file_facts(path) != facts:
            return "was altered: its SHA-256 is another than when it was written"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None


def _noted(folder: Path, collection: str) -> Mapping[str, FileFacts]:
    """Return the files of a collection as they were written; none if that is not known."""
    try:
        files = read_json(note_of(folder, collection))["files"]
        return {str(name): FileFacts.model_validate(facts) for name, facts in files.items()}
    except (StoreError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def note_of(folder: Path, collection: str) -> Path:
    """Return the file that lists a collection's files with size and digest."""
    return folder / _NOTES / f"{collection}.json"
