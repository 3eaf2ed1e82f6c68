"""The files of a sync in its source's folder: the pages, the members of groups, and the outcome of every page.

Belongs here: writing `pages.parquet`, `group_members.parquet` and `sync_state.json`, reading the last with forgiveness;
the number of passages for everyone, and for nobody, as a warning. Does not belong here: syncing (`sources`), records of
later steps (`state.records`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.parsing.reader import ScannedDocuments
from rag_assets.sources.base import SyncResult
from rag_assets.sources.originals import FOLDER as ORIGINALS_FOLDER
from rag_assets.sources.originals import remove_unnamed
from rag_assets.steps.readers import ReaderOrigins
from rag_serving.access import group_members as membership
from rag_serving.access.principals import EVERYONE, NOBODY
from rag_serving.artifacts.schema import CHUNKS, GROUP_MEMBERS, PAGES
from rag_serving.artifacts.signed_files import write_signed_table
from rag_serving.artifacts.store import Store, StoreError, read_json, read_table, write_json, write_table
from rag_serving.escaping.redaction import redacted_values


@dataclass(frozen=True)
class PassageReaders:
    """The passages of a source's chunk table by who may read them."""

    passages: int = 0
    for_everyone: int = 0
    for_nobody: int = 0

    def note(self, source: str) -> str | None:
        """Return what a caller without a name should expect; None if that is no surprise."""
        if not self.passages:
            return None
        if self.for_nobody == self.passages:
            return (
                f"nobody may read any of its {self.passages:,} passages; `citelock doctor` says why, "
                f"sources.{source}.readers says who may read the space"
            )
        if not self.for_everyone:
            return f"0 of {self.passages:,} passages are readable for everyone; who asks needs --user or --group"
        return None


def passage_readers(store: Store, source: str) -> PassageReaders:
    """Count the passages of a source; none if it has no table that can be read."""
    try:
        readers = read_table(store.source(source) / "chunks.parquet", CHUNKS, ["readers"])["readers"]
    except StoreError:
        return PassageReaders()
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(readers).to_pylist()}
    return PassageReaders(len(readers), counts.get(EVERYONE, 0), counts.get(NOBODY, 0))


SYNC_FILE = "sync_state.json"


@dataclass(frozen=True)
class LastSync:
    """The result of the last complete sync; page id -> reason."""

    finished_at: datetime | None
    enumerated: int
    excluded: dict[str, str]
    failed: dict[str, str]
    hidden: dict[str, str]
    notes: tuple[str, ...]
    origins: ReaderOrigins | None  # None: it was of an older program
    fingerprint: str | None = None  # of the source; None: only a sync can find out whether it changed


def write_sync(
    folder: Path, fingerprint: str | None, result: SyncResult, scans: ScannedDocuments | None = None
) -> None:
    """Write the result of a sync into `Store.source`; its state is written last, so that it covers the tables.

    Then files without a page are removed, with their OCR results (`scans`).
    """
    write_table(folder / "pages.parquet", result.pages, PAGES)
    if result.groups is not None:
        members = [{"group": group, "user": user} for group, user in result.groups]
        store = Store(folder.parents[1])
        write_signed_table(store, folder / membership.FILE, GROUP_MEMBERS.table([*members]), GROUP_MEMBERS)
    write_json(
        folder / SYNC_FILE,
        {
            "state": result.state,
            "complete": True,
            "fingerprint": fingerprint,
            "enumerated": result.seen,
            "excluded": redacted_values(dict(result.excluded)),
            "failed": redacted_values(dict(result.failures)),
            "hidden": redacted_values(dict(result.hidden)),
            "notes": redacted_values(result.notes),
            "readers": result.origins.payload() if result.origins else None,
        },
    )
    remove_unnamed(folder / ORIGINALS_FOLDER, _named(result.pages, "sha256"))
    if scans is not None:
        scans.remove_unnamed(_named(result.pages, "received_sha256"))


def _named(pages: pa.Table, digest: str) -> frozenset[str]:
    return frozenset(pc.unique(pc.struct_field(pages["original"], digest)).drop_null().to_pylist())


def read_last_sync(folder: Path) -> LastSync | None:
    """Return the result of the last sync of a source; None if there was none, or it is unreadable."""
    try:
        content = read_json(folder / SYNC_FILE)
        return LastSync(
            finished_at=_moment(content["state"].get("finished_at")),
            enumerated=int(content["enumerated"]),
            excluded=_reasons(content["excluded"]),
            failed=_reasons(content["failed"]),
            hidden=_reasons(content["hidden"]),
            notes=tuple(map(str, content["notes"])),
            origins=ReaderOrigins.of(content.get("readers")),
            fingerprint=content["fingerprint"],
        )
    except (StoreError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _reasons(content: Any) -> dict[str, str]:
    return {str(page_id): str(reason) for page_id, reason in content.items()}


def _moment(written: object) -> datetime | None:
    try:
        return datetime.fromisoformat(written) if isinstance(written, str) else None
    except ValueError:
        return None
