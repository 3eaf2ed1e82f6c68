"""JSON files that only this installation can have written, each for its own place below the home.

Belongs here: writing and reading them. Does not belong here: what they say, the key (`signatures`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag_serving.artifacts.signatures import FIELD, signature_fault, signature_of
from rag_serving.artifacts.store import Store, StoreError, read_json, write_json

KEY_PURPOSE = "files"
_PLACE = "signed_for"


def write_signed(store: Store, path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object atomically, with its place and a signature.

    Raises:
        SecretError: the installation's secret cannot be used.
    """
    placed = {**content, _PLACE: _place(store, path)}
    write_json(path, {**placed, FIELD: signature_of(placed, store.home, KEY_PURPOSE)})


def read_signed(store: Store, path: Path) -> dict[str, Any]:
    """Return the JSON object that `write_signed` wrote at this place.

    Raises:
        StoreError: it is missing, was altered, or was written for another place.
    """
    content = read_json(path)
    if not isinstance(content, Mapping):
        raise StoreError(f"{path} is no JSON object; run `citelock build`")
    if fault := signature_fault(content, store.home, KEY_PURPOSE):
        raise StoreError(f"{path} {fault}")
    if content.get(_PLACE) != _place(store, path):
        raise StoreError(f"{path} was written as {content.get(_PLACE)}; run `citelock build`")
    return {name: value for name, value in content.items() if name not in (FIELD, _PLACE)}


def _place(store: Store, path: Path) -> str:
    return path.absolute().relative_to(store.home.absolute()).as_posix()
