"""The files that a generation's pages were read from, handed from the sources to the tenant.

Belongs here: which files a generation names, linking them into the tenant's folder, removing what none names.
Does not belong here: keeping a file when its page is read (`rag_assets.sources.originals`), rendering.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.publishing.workspace import BuildWorkspace
from rag_assets.sources.originals import FOLDER, remove_unnamed
from rag_serving.artifacts.digests import KnownDigests, sized_stamp
from rag_serving.artifacts.schema import ORIGINALS, PAGES
from rag_serving.artifacts.store import Store, StoreError, map_table, move_file, read_table
from rag_serving.indexes.originals import FILE, read_originals

_log = logging.getLogger(__name__)


def gather_originals(store: Store, tenant: str, sources: Collection[str]) -> pa.Table:
    """Link the originals of the pages that the dense step left into the tenant's folder; leave and return ORIGINALS.

    A page whose file is not what its row says, or which has another version now, has none: it is shown as text.
    """
    with store.lock(tenant):
        workspace = BuildWorkspace.of(store, tenant)
        versions = dict(page_versions(workspace.table()))
        rows = [row for key in sorted(sources) for row in _originals(store, tenant, key, versions)]
        table = ORIGINALS.table(sorted(rows, key=lambda row: str(row["page_id"])))
        workspace.write_originals(table)
    return table


def remove_unnamed_originals(store: Store, tenant: str, generations: Collection[str]) -> list[str]:
    """Remove the tenant's originals that none of these generations names, nor the build under way.

    Raises:
        StoreError: what one of them names cannot be known, and nothing was removed.
    """
    folders = [store.generation(tenant, name) for name in generations]
    workspace = BuildWorkspace.of(store, tenant).originals_folder
    named = {digest for folder in (*folders, workspace) for digest in _named(folder / FILE)}
    return remove_unnamed(store.originals(tenant), named)


def _named(path: Path) -> list[str]:
    return map_table(path, ORIGINALS)["sha256"].to_pylist() if path.exists() else []


def page_versions(chunks: pa.Table) -> Iterator[tuple[str, int]]:
    """Yield id and version of the pages of chunks, and of those that were dropped as duplicates."""
    yield from zip(chunks["page_id"].to_pylist(), chunks["version"].to_pylist(), strict=True)
    places = pc.list_flatten(chunks["places"])
    for chunk_id in pc.struct_field(places, "chunk_id").to_pylist():
        page_id, version, _ = chunk_id.rsplit(":", 2)
        yield page_id, int(version)


def _originals(store: Store, tenant: str, key: str, versions: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    path = store.source(key) / "pages.parquet"
    try:
        pages = read_table(path, PAGES, ["page_id", "version", "original"])
    except StoreError as error:
        _log.warning("no original of source %s is published: %s", key, error)
        return
    for row in pages.filter(pc.is_valid(pages["original"])).to_pylist():
        original = row["original"]
        if versions.get(row["page_id"]) != row["version"]:
            continue
        if _in_place(store, tenant, key, original):
            yield {"page_id": row["page_id"], **original}
        else:
            _log.warning("the original of page %s is missing or was altered; its next sync reads it", row["page_id"])


def restore_originals(store: Store, tenant: str, generation_id: str) -> list[str]:
    """Link the damaged originals of a generation from the sources again; returns their names below the tenant's
    folder."""
    try:
        originals = {one.sha256: one for one in read_originals(store, tenant, generation_id).values()}
    except StoreError:
        return []
    damaged = [one for one in originals.values() if one.fault(thorough=True)]
    folders = sorted((store.home / "sources").glob(f"*/{FOLDER}"))
    return [
        f"{one.path.parent.name}/{one.sha256}"
        for one in damaged
        if any(_linked(folder, one.path.parent, one.sha256) for folder in folders)
    ]


def _in_place(store: Store, tenant: str, key: str, original: Any) -> bool:
    """Return whether the file is in the tenant's folder as it was read; it is linked there where it is not."""
    folder, sha256, known = store.originals(tenant), original["sha256"], KnownDigests(store, tenant)
    try:
        stamp = sized_stamp(folder / sha256, original["bytes"])
    except StoreError:
        return _linked(store.source(key) / FOLDER, folder, sha256)
    name = f"{folder.name}/{sha256}"
    if known.holds(name, stamp, sha256):
        return True
    if _digest(folder / sha256) != sha256:
        return _linked(store.source(key) / FOLDER, folder, sha256)
    known.add(name, stamp, sha256)
    known.save()
    return True


def _linked(source: Path, target: Path, sha256: str) -> bool:
    """Return whether the source has the file of that digest, which then is linked (or copied) into the target folder.

    One that was altered there is removed, so that the next sync reads it again.
    """
    path = source / sha256
    if not path.is_file():
        return False
    if _digest(path) != sha256:
        path.unlink()
        return False
    target.mkdir(parents=True, exist_ok=True)
    working = target / f".{sha256}"
    working.unlink(missing_ok=True)
    try:
        os.link(path, working)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, working)
    move_file(working, target / sha256)
    return True


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
