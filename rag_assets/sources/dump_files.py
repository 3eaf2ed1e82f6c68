"""The files of a dump: those of a folder or of a zip, read in place and within limits.

Belongs here: finding and reading files safely.
Does not belong here: what is in them (`envelope`).
"""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NoReturn

from rag_assets.sources.base import SourceError
from rag_assets.sources.envelope import EnvelopeError

_ATTACHMENTS = "attachments"

MAX_FILE_BYTES = 32 * 1024**2
MAX_ARCHIVE_BYTES = 8 * 1024**3
"""Unpacked; a dump of 100,000 pages of ordinary size is 3 GiB."""


@dataclass(frozen=True)
class DumpFile:
    """A file by its name in the dump; `read` raises EnvelopeError where its bytes cannot be had."""

    name: str
    read: Callable[[], bytes]


@dataclass(frozen=True)
class DumpFiles:
    """What a dump holds, by name: envelopes, and files that are attached to pages."""

    envelopes: list[DumpFile]
    attached: list[DumpFile]


@contextmanager
def dump_files(path: Path) -> Iterator[DumpFiles]:
    """Yield the files of a folder or zip, readable inside the block.

    Raises:
        SourceError: there is no such dump, or no envelope in it.
    """
    if path.is_dir():
        yield _sorted(_folder_files(path), path)
    elif path.is_file():
        with opened(path, "dump") as archive:
            yield _sorted(_archive_files(archive, path), path)
    else:
        raise SourceError(f"dump {path} does not exist; set the source's path to a folder or zip of page envelopes")


def attached_to(name: str) -> tuple[str, str] | None:
    """Return the page id and the file's name below it of `…/attachments/<page id>/<name>`; None for other files."""
    parts = PurePosixPath(name).parts
    at = parts.index(_ATTACHMENTS) if _ATTACHMENTS in parts else len(parts)
    return (parts[at + 1], "/".join(parts[at + 2 :])) if len(parts) > at + 2 else None


def _sorted(files: list[DumpFile], path: Path) -> DumpFiles:
    """An empty dump is a mistake in the path or a copy under way, not a space whose pages were all deleted."""
    files = sorted((file for file in files if not _is_hidden(file.name)), key=lambda file: file.name)
    attached = [file for file in files if attached_to(file.name)]
    envelopes = [file for file in files if file.name.lower().endswith(".json") and not attached_to(file.name)]
    if not envelopes:
        raise SourceError(f"dump {path} holds no *.json file; set the source's path to the folder or zip of envelopes")
    return DumpFiles(envelopes, attached)


def _folder_files(path: Path) -> list[DumpFile]:
    files = (Path(folder, name) for folder, _, names in os.walk(path, onerror=_unreadable) for name in names)
    return [
        DumpFile(file.relative_to(path).as_posix(), partial(_read_file, path, file)) for file in files if file.is_file()
    ]


def _unreadable(error: OSError) -> NoReturn:
    """A folder that cannot be listed hides pages that are still there."""
    raise SourceError(f"dump {error.filename} cannot be read ({error.strerror}); check its permissions")


def _read_file(dump: Path, file: Path) -> bytes:
    """Return a file of the folder; a link may lead to another file in it, not out of it."""
    try:
        if not file.resolve().is_relative_to(dump.resolve()):
            raise EnvelopeError("the file is a link that leads out of the dump")
        with file.open("rb") as stream:
            return _within_limit(stream.read(MAX_FILE_BYTES + 1))
    except OSError as error:
        raise EnvelopeError(f"the file cannot be read: {error.strerror}") from None


def opened(path: Path, what: str) -> zipfile.ZipFile:
    """Return a zip file; raises SourceError, which calls it `what`, where it is none."""
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise SourceError(f"{what} {path} is not a readable zip file ({error}); export it again") from None


def _archive_files(archive: zipfile.ZipFile, path: Path) -> list[DumpFile]:
    """Names are labels only: nothing is unpacked, so a name like `../x` leads nowhere."""
    entries = {entry.filename: entry for entry in archive.infolist() if not entry.is_dir()}
    if sum(entry.file_size for entry in entries.values()) > MAX_ARCHIVE_BYTES:
        raise SourceError(f"dump {path} unpacks to more than {MAX_ARCHIVE_BYTES} bytes; split it into several sources")
    return [DumpFile(name, partial(read_entry, archive, entry)) for name, entry in entries.items()]


def read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a file in a zip; raises EnvelopeError where they cannot be had, or are more than
    MAX_FILE_BYTES."""
    if is_link(entry):
        raise EnvelopeError("the file is a link")
    try:
        with archive.open(entry) as stream:
            return _within_limit(stream.read(MAX_FILE_BYTES + 1))
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise EnvelopeError(f"the file cannot be unpacked: {error}") from None


def is_link(entry: zipfile.ZipInfo) -> bool:
    """Return whether a zip holds a link under this name, whose bytes are where it leads."""
    return stat.S_ISLNK(entry.external_attr >> 16)


def _within_limit(content: bytes) -> bytes:
    if len(content) > MAX_FILE_BYTES:
        raise EnvelopeError(f"the file is larger than {MAX_FILE_BYTES} bytes")
    return content


def _is_hidden(name: str) -> bool:
    """Return one of the companions that some systems add (`__MACOSX/._1.json`)."""
    return any(part == "__MACOSX" or (part.startswith(".") and part != "..") for part in PurePosixPath(name).parts)
