"""Artifact files: where they lie, and how they are read and written without ever being half there."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_serving.artifacts.schema import VERSION_KEY, TableSchema
from rag_serving.artifacts.secret import FIELD, signature_fault, signature_of
from rag_serving.escaping.redaction import RedactedError

FILE = "published.json"
KEY_PURPOSE = "publication"
_FORMAT = 2


class PublicationError(Exception):
    """The record is not one that this installation signed for the tenant; the message says why, with the mend."""


@dataclass(frozen=True)
class Publication:
    """The published generation. `number` only grows: an older record that was put back has a lower one."""

    current: str
    number: int
    history: Mapping[str, str] = field(default_factory=dict)  # generation id -> when it was first published, ISO 8601


def published_after(before: Publication | None, generation_id: str, now: datetime) -> Publication:
    """Return the record of a generation published now; where the one before was lost, the clock numbers it."""
    history = {**(before.history if before else {})}
    history.setdefault(generation_id, now.isoformat(timespec="seconds"))
    number = max(before.number + 1 if before else 0, int(now.timestamp() * 1000))
    return Publication(generation_id, number, history)


def record_of(publication: Publication, home: Path, tenant: str) -> dict[str, Any]:
    """Return the record as JSON, signed. Raises SecretError: the installation's secret cannot be used."""
    content = {"format": _FORMAT, "tenant": tenant, **vars(publication)}
    return {**content, FIELD: signature_of(content, home, KEY_PURPOSE)}


def publication_of(record: object, home: Path, tenant: str) -> Publication:
    """Return the publication in a record. Raises PublicationError: it is unsigned, altered or another tenant's."""
    if not isinstance(record, Mapping):
        raise PublicationError("is no record of what is published; `citelock build` makes it again")
    if fault := signature_fault(record, home, KEY_PURPOSE):
        raise PublicationError(fault)
    if (record["format"], record["tenant"]) != (_FORMAT, tenant):
        raise PublicationError(f"is of tenant {record['tenant']!r}, or of another version; `citelock build` mends it")
    return Publication(record["current"], record["number"], record["history"])


_LONGEST_POINTER = 4096
_LARGEST_JSON = 256 << 20


class StoreError(RedactedError):
    """An artifact is missing, truncated, or of another version; the message says how to mend it."""


@dataclass(frozen=True)
class Store:
    """The home folder of one installation."""

    home: Path

    def source(self, key: str) -> Path:
        return self.home / "sources" / key

    def tenant(self, name: str) -> Path:
        return self.home / "tenants" / name

    def cache(self, tenant: str) -> Path:
        return self.tenant(tenant) / "cache"

    def chroma(self, tenant: str) -> Path:
        return self.tenant(tenant) / "chroma"

    def candidate(self, tenant: str) -> Path:
        """Working folder of the publish job; its content is worthless once the job has ended."""
        return self.tenant(tenant) / "candidate"

    def originals(self, tenant: str) -> Path:
        """Return the folder of the files that pages were read from, each named by its SHA-256."""
        return self.tenant(tenant) / "originals"

    def generations(self, tenant: str) -> Path:
        return self.tenant(tenant) / "generations"

    def generation(self, tenant: str, generation_id: str) -> Path:
        return self.generations(tenant) / generation_id

    def pointer(self, tenant: str) -> Path:
        """Return the file that names the published generation."""
        return self.tenant(tenant) / "current"

    def current(self, tenant: str) -> str | None:
        """Return the published generation's id, or None if nothing was published yet."""
        return read_pointer(self.pointer(tenant))

    def publication(self, tenant: str) -> Publication:
        """Return the publication, as signed by this installation. Raises StoreError: it is missing or not authentic."""
        path = self.publication_record(tenant)
        try:
            return publication_of(read_json(path), self.home, tenant)
        except PublicationError as error:
            raise StoreError(f"{path} {error}") from None

    def publication_record(self, tenant: str) -> Path:
        """Return the file that says, signed, which generation is published."""
        return self.tenant(tenant) / FILE

    def point_current(self, tenant: str, generation_id: str) -> None:
        """Publish (or roll back to) a complete generation: first the record, which decides, then the pointer."""
        if not (self.generation(tenant, generation_id) / "manifest.json").is_file():
            raise StoreError(
                f"generation {generation_id!r} of tenant {tenant!r} does not exist or is not complete; "
                f"`citelock generations list --tenant {tenant}` shows what there is"
            )
        try:
            before = self.publication(tenant)
        except StoreError:  # lost, or altered: what was published before is not known any more
            before = None
        now = published_after(before, generation_id, datetime.now(UTC))
        write_json(self.publication_record(tenant), record_of(now, self.home, tenant))
        write_text(self.pointer(tenant), generation_id + "\n")

    @contextmanager
    def lock(self, tenant: str) -> Iterator[None]:
        """Hold a tenant's lock: one writer at a time, over threads and processes; a killed holder loses it."""
        from filelock import FileLock  # a process that only reads locks nothing

        path = self.tenant(tenant) / ".publish.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path, fallback_to_soft=False):
            yield

    def serving_db(self) -> Path:
        return self.home / "serving.db"


def read_pointer(path: Path) -> str | None:
    """Return a pointer's target, None without the file. Every question calls this: a plain read, no text layer."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # nobody may be at the other end of a pipe
    except FileNotFoundError:
        return None
    try:
        return os.read(handle, _LONGEST_POINTER).decode(errors="replace").strip() or None
    finally:
        os.close(handle)


def write_table(path: Path, table: pa.Table, schema: TableSchema) -> None:
    """Write a table atomically; its columns must be the schema's."""
    import pyarrow.parquet as pq

    with _replacing(path) as temporary:
        pq.write_table(table.cast(schema.arrow), temporary, compression="zstd")


def read_table(
    path: Path, schema: TableSchema, columns: list[str] | None = None, content: bytes | None = None
) -> pa.Table:
    """Read a table of this schema's version, from the bytes of its file where those are given; an optional column that
    the file is older than is null. Raises StoreError: the file is missing, truncated, or of another version."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path if content is None else pa.BufferReader(content), memory_map=True) as file:
            _check_version(path, file.schema_arrow, schema)
            names = columns or schema.columns.names
            lacking = schema.optional & set(names) - set(
                file.schema_arrow.names
            )  # columns that are newer than the file
            if not lacking:
                return file.read(columns=columns)
            table = file.read(columns=[name for name in names if name not in lacking])
    except FileNotFoundError:
        raise StoreError(f"{path} does not exist; run `{schema.rebuild}`") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise StoreError(f"{path} cannot be read ({error}); delete it and run `{schema.rebuild}`") from error
    for name in lacking:
        table = table.append_column(schema.columns.field(name), pa.nulls(len(table), schema.columns.field(name).type))
    return table.select(names)


def write_mapped(path: Path, table: pa.Table, schema: TableSchema) -> None:
    """Write a table atomically as an Arrow file, uncompressed, to be memory-mapped."""
    rows = table.cast(schema.arrow).combine_chunks()
    with _replacing(path) as temporary, pa.ipc.new_file(str(temporary), rows.schema) as file:
        file.write_table(rows)


def map_table(path: Path, schema: TableSchema) -> pa.Table:
    """Return a table of this schema's version written by `write_mapped`; unused parts are not read. Raises StoreError:
    the file is missing, truncated, or of another version."""
    try:
        source = pa.memory_map(str(path))
    except FileNotFoundError:
        raise StoreError(f"{path} does not exist; run `{schema.rebuild}`") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error}); delete it and run `{schema.rebuild}`") from error
    return table_of(source, path, schema)


def table_of(source: pa.MemoryMappedFile | memoryview, path: Path, schema: TableSchema) -> pa.Table:
    """Return the table of this schema in the bytes of the file at a path, not copied; errors as `map_table`."""
    try:
        data = pa.py_buffer(source) if isinstance(source, memoryview) else source
        table = pa.ipc.open_file(data).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise StoreError(f"{path} cannot be read ({error}); delete it and run `{schema.rebuild}`") from error
    _check_version(path, table.schema, schema)
    return table


def _check_version(path: Path, actual: pa.Schema, schema: TableSchema) -> None:
    version = (actual.metadata or {}).get(VERSION_KEY, b"none").decode()
    if version != str(schema.version):
        raise StoreError(
            f"{path} has version {version} of table {schema.name!r}, this program reads version "
            f"{schema.version}; run `{schema.rebuild}`"
        )


def write_json(path: Path, value: object) -> None:
    """Write a JSON document atomically, keys sorted: the same value gives the same bytes."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON document. Raises StoreError: the file is missing or is not JSON."""
    try:
        with open_file(path) as file:
            return json.loads(file.read(_LARGEST_JSON).decode())
    except FileNotFoundError:
        raise StoreError(f"{path} does not exist; run `citelock build`") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); mend that or run `citelock build`") from None
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is not valid JSON ({error}); delete it and run `citelock build`") from error


def open_file(path: Path) -> BufferedReader:
    """Open a regular file; no link is followed, no pipe or device waited for. Raises OSError: it cannot be read."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def make_private(path: Path) -> None:
    """Create an empty file readable by its owner alone, unless it exists. An existing file is not opened: closing it
    would drop SQLite's locks on it in this process (https://www.sqlite.org/howtocorrupt.html, section 2.2)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def write_ahead(connection: sqlite3.Connection) -> None:
    """Let SQLite's writers not wait for its readers (https://www.sqlite.org/wal.html). Of connections that switch a new
    file at once all but one are refused, whatever their timeout: they try again, for two seconds in all."""
    for is_last in (*[False] * 100, True):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            if is_last or "locked" not in str(error):
                raise
            time.sleep(0.02)
    connection.execute("PRAGMA synchronous=NORMAL")


def read_text(path: Path) -> str:
    """Read a text file. Raises StoreError: the file cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} cannot be read ({error})") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with _replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with _replacing(path) as temporary:
        temporary.write_bytes(content)


def rewrite(path: Path, content: bytes) -> None:
    """Write a file that is there atomically; it keeps its mode and owner."""
    with _replacing(path) as temporary:
        there = path.stat()
        os.chown(temporary, there.st_uid, there.st_gid)
        temporary.chmod(stat.S_IMODE(there.st_mode))
        temporary.write_bytes(content)


def commit_folder(folder: Path, target: Path) -> None:
    """Make a finished folder visible under its final name in one rename, its files safely on disk first."""
    for file in sorted(folder.rglob("*")):
        _sync(file)
    _sync(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        remove_folder(target)
    folder.rename(target)
    _sync(target.parent)


def move_file(file: Path, target: Path) -> None:
    """Give a finished file its final name, replacing any other, in one rename."""
    _sync(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    file.replace(target)
    _sync(target.parent)


def remove_folder(folder: Path) -> None:
    """Delete a folder so that no reader ever finds it half deleted: rename away first."""
    if not folder.exists():
        return
    doomed = Path(tempfile.mkdtemp(prefix=".deleted-", dir=folder.parent))
    folder.rename(doomed / folder.name)
    shutil.rmtree(doomed, ignore_errors=True)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path` that takes its name when the block ends well. Its permissions follow the
    process's umask, so that another account can serve this one's builds; `mkstemp` would let nobody else read it.
    Private files (`keys`, the telemetry's file) are not written here."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}-{secrets.token_hex(8)}"
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
