"""The files of a dump: JSON files of a folder or of a zip, read in place and within limits.

Belongs here: finding and reading files safely.
Does not belong here: what is in them (`envelope`).
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from rag_assets.sources.base import SourceError
from rag_assets.sources.envelope import EnvelopeError

MAX_FILE_BYTES = 32 * 1024**2
MAX_ARCHIVE_BYTES = 8 * 1024**3
"""Unpacked; a dump of 100,000 pages of ordinary size is 3 GiB."""


@dataclass(frozen=True)
class DumpFile:
    """A file by its name in the dump; `read` raises EnvelopeError where its bytes cannot be had."""

    name: str
    read: Callable[[], bytes]


@contextmanager
def dump_files(path: Path) -> Iterator[list[DumpFile]]:
    """The JSON files of a folder or zip by name, readable inside the block.

    Raises:
        SourceError: there is no such dump, or nothing in it.
    """
    if path.is_dir():
        yield _some(_folder_files(path), path)
    elif path.is_file():
        with opened(path, "dump") as archive:
            yield _some(_archive_files(archive, path), path)
    else:
        raise SourceError(f"dump {path} does not exist; set the source's path to a folder or zip of page envelopes")


def _some(files: list[DumpFile], path: Path) -> list[DumpFile]:
    """An empty dump is a mistake in the path or a copy under way, not a space whose pages were all deleted."""
    if not files:
        raise SourceError(f"dump {path} holds no *.json file; set the source's path to the folder or zip of envelopes")
    return sorted(files, key=lambda file: file.name)


def _folder_files(path: Path) -> list[DumpFile]:
    try:
        found = [(file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file()]
    except OSError as error:
        raise SourceError(f"dump {path} cannot be read ({error.strerror}); check its permissions") from None
    return [DumpFile(name, partial(_read_file, file)) for name, file in found if _is_envelope_name(name)]


def _read_file(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return _within_limit(stream.read(MAX_FILE_BYTES + 1))
    except OSError as error:
        raise EnvelopeError(f"the file cannot be read: {error.strerror}") from None


def opened(path: Path, what: str) -> zipfile.ZipFile:
    """A zip file; raises SourceError, which calls it `what`, where it is none."""
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise SourceError(f"{what} {path} is not a readable zip file ({error}); export it again") from None


def _archive_files(archive: zipfile.ZipFile, path: Path) -> list[DumpFile]:
    """Names are labels only: nothing is unpacked, so a name like `../x` leads nowhere."""
    entries = {entry.filename: entry for entry in archive.infolist() if not entry.is_dir()}
    entries = {name: entry for name, entry in entries.items() if _is_envelope_name(name)}
    if sum(entry.file_size for entry in entries.values()) > MAX_ARCHIVE_BYTES:
        raise SourceError(f"dump {path} unpacks to more than {MAX_ARCHIVE_BYTES} bytes; split it into several sources")
    return [DumpFile(name, partial(_read_entry, archive, entry)) for name, entry in entries.items()]


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    try:
        with archive.open(entry) as stream:
            return _within_limit(stream.read(MAX_FILE_BYTES + 1))
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise EnvelopeError(f"the file cannot be unpacked: {error}") from None


def _within_limit(content: bytes) -> bytes:
    if len(content) > MAX_FILE_BYTES:
        raise EnvelopeError(f"the file is larger than {MAX_FILE_BYTES} bytes")
    return content


def _is_envelope_name(name: str) -> bool:
    """JSON, and not one of the hidden companions that some systems add (`__MACOSX/._1.json`)."""
    parts = PurePosixPath(name).parts
    hidden = any(part == "__MACOSX" or (part.startswith(".") and part != "..") for part in parts)
    return not hidden and name.lower().endswith(".json")
