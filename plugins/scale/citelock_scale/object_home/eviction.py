"""The space that a machine which only reads takes for what it has fetched: what is deleted when.

Belongs here: choosing and deleting. Does not belong here: what is fetched (`followed_folder`), builds, which keep
what their configuration says.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from citelock_scale.object_home.downloads import FOLDER as DOWNLOADS
from citelock_scale.object_home.shared_folder import NOTES, is_followed, notes_of

KEPT_GENERATIONS = 2
"""Of a tenant, the newest that were fetched; one that was replaced may still be answering."""

_log = logging.getLogger(__name__)


def make_room(home: Path, most_bytes: int) -> None:
    """Delete generations beyond those that are kept of each tenant, then, the oldest first, those that are not
    published, until all take `most_bytes` at most; 0: any number."""
    replaced = list[Path]()
    for folder in _followed_tenants(home):
        beside = _beside_the_published(folder)
        for place in beside[KEPT_GENERATIONS - 1 :]:
            _delete(place)
        if not (folder / DOWNLOADS).exists():  # else the newest may be one that is just moved in
            replaced += beside[: KEPT_GENERATIONS - 1]
    if not most_bytes:
        return
    used = sum(map(_bytes_of, home.glob("tenants/*/generations/*")))
    for place in sorted(replaced, key=_changed):
        if used <= most_bytes:
            return
        used -= _bytes_of(place)
        _delete(place)


def delete_tenants(home: Path, configured: Collection[str]) -> None:
    """Delete what was fetched of tenants that the configuration names no more."""
    for folder in _followed_tenants(home):
        if folder.name not in configured:
            _log.warning("tenant %s is not configured any more: what was fetched of it is deleted", folder.name)
            shutil.rmtree(folder, ignore_errors=True)
            notes = notes_of(home, f"tenants/{folder.name}")
            notes.unlink(missing_ok=True)
            notes.with_suffix(".tree").unlink(missing_ok=True)


def _followed_tenants(home: Path) -> Iterator[Path]:
    """Yield the folders of tenants that this machine never built."""
    for notes in sorted((home / NOTES).glob("tenants~*.json")):
        name = notes.stem.replace("~", "/")
        if is_followed(home, name):
            yield home / name


def _beside_the_published(folder: Path) -> list[Path]:
    """Return the generations of a tenant on this machine that are not published, the newest first."""
    named = _named(folder)
    there = [place for place in (folder / "generations").glob("*") if place.is_dir() and place.name not in named]
    return sorted(there, key=_changed, reverse=True)


def _named(folder: Path) -> set[str]:
    """Return the generations that the record of a tenant, or the pointer beside it, names."""
    named = set[str]()
    with suppress(OSError, ValueError, KeyError, TypeError):
        named.add(str(json.loads((folder / "published.json").read_bytes())["current"]))
    with suppress(OSError, ValueError):
        named.add((folder / "current").read_text(encoding="utf-8").strip())
    return named


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _bytes_of(folder: Path) -> int:
    """Return what a folder takes of the disk."""
    size = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                size += os.lstat(Path(place, name)).st_size
    return size


def _delete(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
