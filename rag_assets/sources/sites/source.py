"""A documentation site or book as a source: each page of it is a page, each PDF or Office file beside them, too.

Belongs here: the order of a sync, which page a file is, files that are gone and files that are only missing.
Does not belong here: files (`trees`), generators (`detect`), which files are pages (`planning`), what becomes of them
(`page_sync`, `documents.document_pages`), renames (`documents.renames`, `similarity`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.base import READING_VERSION, Progress, Row, SyncResult, finish, rows_by_id
from rag_assets.sources.documents.document_pages import Document, DocumentPages, rows_by_content, shown_name
from rag_assets.sources.documents.file_changes import (
    FileSource,
    content_digest,
    known_files,
    readers_notes,
)
from rag_assets.sources.documents.renames import Known, identify
from rag_assets.sources.documents.rows import RowMaker
from rag_assets.sources.sites.canonical import with_canonical
from rag_assets.sources.sites.detect import SUMMARY, found_site
from rag_assets.sources.sites.git_index import missing_files
from rag_assets.sources.sites.page_reader import SitePageReader
from rag_assets.sources.sites.page_sync import PageInputs, PageSync
from rag_assets.sources.sites.planning import addressed, planned
from rag_assets.sources.sites.rows import placed
from rag_assets.sources.sites.similarity import renamed
from rag_assets.sources.sites.site import SiteBody
from rag_assets.sources.sites.trees import FileTree, SubTree
from rag_serving.config.sources import MarkdownBook, SiteSource
from rag_serving.documents.kinds import is_document_name

NO_DOCUMENTS = "pictures, settings, source code"
"""How the note ends that counts the files of a site which are no documents; nothing is wrong with them."""


@dataclass(frozen=True)
class _Last:
    """What the last sync left."""

    rows: Mapping[str, Row]  # by id
    known: Mapping[str, Known]  # by name
    inputs: Mapping[str, PageInputs]  # by name
    canonical: Mapping[str, str]  # by name (`canonical`)
    began: object  # in seconds since 1970

    @property
    def by_id(self) -> dict[str, Known]:
        """What is known of the files, by page id."""
        return {one.page_id: one for one in self.known.values()}


class SiteFolder(FileSource[SiteSource]):
    """The pages of a site, read from the files that its generator reads."""

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Read the pages whose files, or what shapes them, changed; the others keep their text."""
        began, reading = time.time(), self._reading
        last = _last(previous, state)
        with (
            self._tree() as whole,
            nullcontext(reading.reader) if reading.reader else reading.limited() as reader,
            SitePageReader(reader.limits) as page_reader,
        ):
            folder, sync = self._begun(whole, last, reader, page_reader)
            sync, bodies = self._with_renames(sync, last)
            documents = self._documents(sync, last)
            missing = self._missing(folder, sync, last)
            total = len(sync.plan.by_name)
            for done, page in enumerate((*sync.plan.pages, *sync.plan.documents), start=1):
                if page.is_document:
                    documents.take(self._document(page.name, sync))
                else:
                    sync.take(page, self._row_id(sync.page_ids.get(page.name), page.name), bodies.get(page.name))
                if progress is not None:
                    progress(done, total)
            for name, why in sorted((missing or {}).items()):
                documents.keep(name, last.known[name], self._id(last.known[name].page_id), why)
        return self._result(sync, documents, last, began, is_confirmed=missing is not None)

    def _begun(
        self, whole: FileTree, last: _Last, reader: LimitedReader, page_reader: SitePageReader
    ) -> tuple[str, PageSync]:
        """Return the folder of the site in the tree, and a sync that knows which of the last pages each file is."""
        is_book = isinstance(self._settings, MarkdownBook) and SUMMARY in whole.names
        wanted = "mdbook" if is_book and self._settings.site == "auto" else self._settings.site
        _, folder, site = found_site(whole.names, wanted, self.key)
        tree = SubTree(whole, folder) if folder else whole
        plan = planned(site, tree, self.key, self._settings)
        if self._settings.base_url is not None:  # else addresses are Citelock's own
            plan = with_canonical(plan, tree, last.known, last.began, last.canonical)
        digests = {
            page.name: content_digest(tree, page.name, last.known.get(page.name), last.began)
            for page in (*plan.pages, *plan.documents)
        }
        shas = {name: sha for name, sha in digests.items() if sha}
        page_ids = identify(self.key, shas, last.known)
        plan = addressed(plan, self._settings, self._reading, page_ids)
        sync = PageSync(
            key=self.key,
            settings=self._settings,
            tree=tree,
            site=site,
            plan=plan,
            before=last.rows,
            known=last.by_id,
            inputs=last.inputs,
            shas=shas,
            page_ids=page_ids,
            pages=page_reader,
            reader=reader,
        )
        return folder, sync

    def _with_renames(self, sync: PageSync, last: _Last) -> tuple[PageSync, dict[str, SiteBody]]:
        """Return a sync in which files that were renamed and changed at once are the pages that they were, too, and the
        bodies that were read to tell and still hold."""
        names, ids = sync.plan.by_name, set(sync.page_ids.values())
        gone = {
            name: row["body"]
            for name, one in last.known.items()
            if name not in names and one.page_id not in ids and (row := last.rows.get(self._id(one.page_id)))
        }
        known_ids = {"", *last.by_id}
        new = [page for page in sync.plan.pages if sync.page_ids.get(page.name, "") not in known_ids]
        if not gone or not new:
            return sync, {}
        read = {page.name: sync.body(page) for page in new}
        bodies = {name: body for name, body in read.items() if isinstance(body, SiteBody)}
        pairs = renamed(gone, {name: body.html for name, body in bodies.items()})
        if not pairs:
            return sync, bodies
        page_ids = {**sync.page_ids, **{name: last.known[old].page_id for name, old in pairs.items()}}
        plan = addressed(sync.plan, self._settings, self._reading, page_ids)
        return replace(sync, plan=plan, page_ids=page_ids), {}

    def _documents(self, sync: PageSync, last: _Last) -> DocumentPages:
        maker = RowMaker(self.key, self._settings, sync.reader, self._reading.originals)
        twins = rows_by_content(last.known, last.rows, self._settings.id_prefix)
        twins = {content: row for content, row in twins.items() if is_document_name(f"x.{content[1]}")}
        return DocumentPages(sync.tree, last.rows, last.by_id, maker, twins)

    def _document(self, name: str, sync: PageSync) -> Document:
        row_id, page_id = self._row_id(sync.page_ids.get(name), name), sync.page_ids.get(name)
        url = sync.plan.address(sync.plan.by_name[name])
        stamp, written_at = sync.tree.stamp(name), sync.tree.written_at(name)
        return Document(name, page_id, row_id, sync.shas.get(name), stamp, written_at, url)

    def _missing(self, folder: str, sync: PageSync, last: _Last) -> dict[str, str] | None:
        """Return the files of the last sync that are not there and that git does not call deleted, with the reason;
        None where git tracks none."""
        names = {*sync.plan.by_name, *sync.plan.excluded}
        ids = set(sync.page_ids.values())
        gone = [name for name, one in last.known.items() if name not in names and one.page_id not in ids]
        return missing_files(self._settings.path / folder, gone)

    def _result(
        self, sync: PageSync, documents: DocumentPages, last: _Last, began: float, is_confirmed: bool
    ) -> SyncResult:
        excluded = {
            self._row_id(sync.page_ids.get(name), name): f"{shown_name(name)}: {reason}"
            for name, reason in sync.plan.excluded.items()
        }
        rows = {**sync.rows, **documents.rows}
        placed(sync.plan, {name: self._id(page_id) for name, page_id in sync.page_ids.items()}, rows)
        files = {**sync.now, **documents.now}
        failures = {**sync.failures, **documents.failures}
        enumerated = len(sync.plan.pages) + len(sync.plan.documents) + len(sync.plan.excluded)
        missing = len(files.keys() - sync.plan.by_name.keys())
        return finish(
            self._settings,
            last.rows,
            rows,
            seen=enumerated + missing,
            excluded=[*excluded.items(), *sync.excluded.items(), *documents.excluded.items()],
            failures=failures.items(),
            notes=[*readers_notes(self.key, self._settings), *_asset_note(sync)],
            state={
                "files": {name: one.dump() for name, one in files.items()},
                "inputs": {name: one.dump() for name, one in sync.inputs_now.items()},
                "canonical": {page.name: page.canonical for page in sync.plan.pages} if sync.plan.base_url else {},
                "began": began,
                "reading": READING_VERSION,
            },
            is_confirmed=is_confirmed,
        )


def _asset_note(sync: PageSync) -> list[str]:
    named = sync.plan.by_name.keys() | sync.plan.excluded.keys()
    count = sum(name not in named for name in sync.tree.names)
    files = "1 file is no document" if count == 1 else f"{count} files are no documents"
    return [f"{files}: {NO_DOCUMENTS}"] if count else []


def _last(previous: pa.Table | None, state: Mapping[str, Any]) -> _Last:
    canonical = state.get("canonical")
    found = canonical if isinstance(canonical, dict) else {}
    return _Last(
        rows=rows_by_id(previous),
        known=known_files(state),
        inputs=_known_inputs(state),
        canonical={name: address for name, address in found.items() if isinstance(address, str)},
        began=state.get("began"),
    )


def _known_inputs(state: Mapping[str, Any]) -> dict[str, PageInputs]:
    """Return what the text of the pages was made of at the last sync, by name."""
    inputs = state.get("inputs")
    if state.get("reading") != READING_VERSION or not isinstance(inputs, dict):
        return {}
    return {name: one for name, value in inputs.items() if (one := PageInputs.load(value)) is not None}
