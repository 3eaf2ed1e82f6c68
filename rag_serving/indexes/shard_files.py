"""The files of a shard's graph and their digests: Chroma itself does not notice a damaged one, or dies of it.

Belongs here: noting the files when a shard is built, comparing them later, a database file that is none.
Does not belong here: what a collection holds (`shard_collections`), connections (`chroma`).

Chroma keeps each graph in files that it never changes once the shard is built. Reading a truncated or altered one can
end the process, so they are compared before Chroma reads them. A server's files are the server's own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path

from rag_serving.artifacts.manifest import FileFacts, file_facts, folder_facts
from rag_serving.artifacts.store import StoreError, read_json, remove_folder, write_json

DATABASE = "chroma.sqlite3"
_NOTES = "shard-files"


def graph_folders(folder: Path) -> frozenset[str]:
    """Return the names of the folders that hold a graph; those that a shard adds are its own."""
    found = (path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else ()
    return frozenset(path.name for path in found) - {_NOTES}


def note_files(folder: Path, collection: str, own: Collection[str], is_final: bool) -> None:
    """Write down a collection's own folders, and size and digest of every file in them unless these still change."""
    files = {
        f"{name}/{file}": facts.model_dump()
        for name in sorted(own if is_final else ())
        for file, facts in folder_facts(folder / name).items()
    }
    write_json(_note(folder, collection), {"folders": sorted(own), "files": files})


def file_fault(folder: Path, collection: str, thorough: bool = False) -> str | None:
    """Return what is wrong with a collection's files, naming the first; None where nothing is, or nothing was noted.

    `thorough` compares the digest of every file, else sizes alone.
    """
    for name, facts in _noted(folder, collection).items():
        if fault := fault_of(folder / name, facts, thorough):
            return f"{name} {fault}"
    return None


def forget_files(folder: Path, collection: str) -> None:
    """Remove the files of a collection that was deleted, which Chroma leaves behind."""
    try:
        own = frozenset(map(str, read_json(_note(folder, collection))["folders"]))
    except (StoreError, KeyError, TypeError):
        own = frozenset()
    for name in own & graph_folders(folder):
        remove_folder(folder / name)
    _note(folder, collection).unlink(missing_ok=True)


def database_fault(folder: Path) -> str | None:
    """Return what is wrong with Chroma's database file; None where it can be read, or nothing was written yet."""
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


def discard_unreadable(folder: Path) -> str | None:
    """Remove Chroma's folder where its database is damaged, and return why: all in it can be built again."""
    fault = database_fault(folder)
    if fault:
        remove_folder(folder)
    return fault


def fault_of(path: Path, facts: FileFacts, thorough: bool) -> str | None:
    """Return how a file differs from what was written down of it; None where it does not."""
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
    """Return the files of a collection as they were written; none where that is not known."""
    try:
        files = read_json(_note(folder, collection))["files"]
        return {str(name): FileFacts.model_validate(facts) for name, facts in files.items()}
    except (StoreError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _note(folder: Path, collection: str) -> Path:
    return folder / _NOTES / f"{collection}.json"
