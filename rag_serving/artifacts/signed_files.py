"""JSON files, texts and tables that only this installation can have written, each for its own place below the home."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_serving.artifacts.schema import TableSchema
from rag_serving.artifacts.secret import FIELD, signature_fault, signature_of
from rag_serving.artifacts.store import Store, StoreError, read_json, read_table, write_bytes, write_table, write_text

FILE = "last_sync.json"
_FIELD = "synced_at"


def write_sync_time(store: Store, source: str, moment: datetime) -> None:
    """Record when a source was last synced, or proved unchanged. Raises SecretError: the secret cannot be used."""
    write_signed(store, _path(store, source), {_FIELD: moment.isoformat()})


def read_sync_time(store: Store, source: str) -> datetime | None:
    """Return when a source was last synced; None if nobody knows, or the file is not one that was signed here."""
    try:
        moment = datetime.fromisoformat(str(read_signed(store, _path(store, source)).get(_FIELD)))
    except (StoreError, ValueError):
        return None
    return moment if moment.tzinfo else None


def _path(store: Store, source: str) -> Path:
    return store.source(source) / FILE


KEY_PURPOSE = "files"
_PLACE = "signed_for"
_COMMENT, _END = "<!-- signed ", " -->\n"


def write_signed(store: Store, path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object atomically, with its place and a signature; in one line, which a library in C writes. Raises
    SecretError: the installation's secret cannot be used."""
    placed = {**content, _PLACE: _place(store, path)}
    signed = {**placed, FIELD: signature_of(placed, store.home, KEY_PURPOSE)}
    write_text(path, json.dumps(signed, ensure_ascii=False, sort_keys=True) + "\n")


def read_signed(store: Store, path: Path) -> dict[str, Any]:
    """Return the JSON object that `write_signed` wrote here. Raises StoreError: missing, altered, of another place."""
    content = read_json(path)
    if not isinstance(content, Mapping):
        raise StoreError(f"{path} is no JSON object; run `citelock build`")
    if fault := signature_fault(content, store.home, KEY_PURPOSE):
        raise StoreError(f"{path} {fault}")
    if content.get(_PLACE) != _place(store, path):
        raise StoreError(f"{path} was written as {content.get(_PLACE)}; run `citelock build`")
    return {name: value for name, value in content.items() if name not in (FIELD, _PLACE)}


def write_signed_text(store: Store, path: Path, html: str) -> None:
    """Write an HTML text atomically, with its signature in a comment at its end; errors as `write_signed`."""
    signed = {"sha256": sha256(html.encode()).hexdigest(), _PLACE: _place(store, path)}
    write_bytes(path, f"{html}{_COMMENT}{signature_of(signed, store.home, KEY_PURPOSE)}{_END}".encode())


def read_signed_text(store: Store, path: Path) -> str:
    """Return the text that `write_signed_text` wrote at this place. Raises StoreError: it is missing, was altered, or
    was written for another place."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror})") from None
    html, comment, rest = content.rpartition(_COMMENT.encode())
    signature = rest.removesuffix(_END.encode()) if comment and rest.endswith(_END.encode()) else b""
    signed = {
        "sha256": sha256(html).hexdigest(),
        _PLACE: _place(store, path),
        FIELD: signature.decode(errors="replace"),
    }
    if fault := signature_fault(signed, store.home, KEY_PURPOSE):
        raise StoreError(f"{path} {fault}")
    return content.decode()


def write_signed_table(store: Store, path: Path, table: pa.Table, schema: TableSchema) -> None:
    """Write a table atomically, and its digest beside it; errors as `write_signed`."""
    write_table(path, table, schema)
    write_signed(store, _beside(path), {"sha256": sha256(path.read_bytes()).hexdigest()})


def read_signed_table(store: Store, path: Path, schema: TableSchema) -> pa.Table:
    """Return the table that `write_signed_table` wrote at this place. Raises StoreError: it is missing, was altered, or
    was written for another place or by another version."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); run `{schema.rebuild}`") from None
    if read_signed(store, _beside(path)).get("sha256") != sha256(content).hexdigest():
        raise StoreError(f"{path} was altered; run `{schema.rebuild}`")
    return read_table(path, schema, content=content)


def _beside(path: Path) -> Path:
    return path.with_suffix(".signed.json")


def _place(store: Store, path: Path) -> str:
    return path.absolute().relative_to(store.home.absolute()).as_posix()
