"""A documentation site or book as a source: each page of it is a page.

Belongs here: which pages changed, what becomes of one that is left out or cannot be read, deletions.
Does not belong here: files (`trees`), generators (`detect`), the rows of pages (`rows`), which page a renamed file is
(`documents.renames`, `similarity`).
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from rag_assets.sources.base import (
    READING_VERSION,
    Progress,
    Row,
    SourceError,
    SyncResult,
    digest,
    finish,
    rows_by_id,
    settings_digest,
)
from rag_assets.sources.documents.renames import Known, identify
from rag_assets.sources.documents.rows import MARK, Reading
from rag_assets.sources.sites.detect import SUMMARY, found_site
from rag_assets.sources.sites.rows import PageFacts, placed, row_of
from rag_assets.sources.sites.similarity import renamed
from rag_assets.sources.sites.site import ExcludedPageError, Site, SiteBody, SitePage, SitePlan
from rag_assets.sources.sites.trees import FileTree, SubTree, opened_tree
from rag_assets.steps.files.records import FileError
from rag_serving.config.sources import MarkdownBook, SiteSource
from rag_serving.documents.kinds import kind_by_name

_CHANGELOG = re.compile(r"change[-_ ]?logs?|changes|history|news|release[-_ ]?(?:notes|history)|whats?[-_ ]?new", re.I)
_ASSETS = frozenset({"code", "table", "image", None})
_CANNOT_TELL_S = 2.0
"""Seconds before a sync in which a file may have been written again without its times showing it."""


@dataclass
class _Sync:
    """What becomes of the pages, by page id."""

    tree: FileTree
    site: Site
    plan: SitePlan
    before: Mapping[str, Row]
    known: Mapping[str, Known]  # by name
    inputs: Mapping[str, list[Any]]  # by name: digest of all that its text was made of, files that it includes
    known_ids: Mapping[str, Known]  # the same by page id
    page_ids: dict[str, str] = field(default_factory=dict)  # by name
    plan_digest: str = ""
    shas: dict[str, str] = field(default_factory=dict)  # by name
    bodies: dict[str, SiteBody] = field(default_factory=dict)  # read to tell renames
    rows: dict[str, Row] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    now: dict[str, Known] = field(default_factory=dict)
    inputs_now: dict[str, list[Any]] = field(default_factory=dict)


class SiteFolder:
    """The pages of a site, read from the files that its generator reads."""

    def __init__(self, key: str, settings: SiteSource, reading: Reading) -> None:
        self.key = key
        self._settings = settings
        self._reading = reading

    def fingerprint(self) -> str:
        """Return a digest of settings, names, sizes and times (in a zip: checksums): no file is opened."""
        with self._tree() as tree:
            stamps = [f"{name}:{tree.stamp(name)}" for name in tree.names]
        return digest(settings_digest(self.key, self._settings), self._reading.public_url or "", *stamps)

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Read the pages whose files, or what shapes them, changed; the others keep their text."""
        began = time.time()
        with self._tree() as tree:
            sync = self._begun(tree, previous, state)
            pages = sync.plan.pages
            for done, page in enumerate(pages, start=1):
                self._take(page, sync)
                if progress is not None:
                    progress(done, len(pages))
            for name, reason in sync.plan.excluded.items():
                sync.excluded[self._row_id(name, sync)] = f"{name}: {reason}"
            notes = [*self._notes(), *_asset_note(sync)]
        placed(sync.plan, {name: self._id(page_id) for name, page_id in sync.page_ids.items()}, sync.rows)
        return finish(
            sync.before,
            sync.rows,
            seen=len(pages) + len(sync.plan.excluded),
            excluded=sync.excluded.items(),
            failures=sync.failures.items(),
            notes=notes,
            state={
                "files": {name: one.dump() for name, one in sync.now.items()},
                "inputs": sync.inputs_now,
                "began": began,
                "reading": READING_VERSION,
            },
        )

    def _tree(self) -> Any:
        return opened_tree(self._settings.path, self.key, self._settings.max_file_bytes)

    def _begun(self, whole: FileTree, previous: pa.Table | None, state: Mapping[str, Any]) -> _Sync:
        """Return a sync that knows the pages and which of the last ones each is."""
        is_book = isinstance(self._settings, MarkdownBook) and SUMMARY in whole.names
        wanted = "mdbook" if is_book and self._settings.site == "auto" else self._settings.site
        _, folder, site = found_site(whole.names, wanted, self.key)
        tree = SubTree(whole, folder) if folder else whole
        known, inputs = _remembered(state)
        plan = self._kept_pages(tree, _planned(site, tree, self.key))
        sync = _Sync(
            tree, site, plan, rows_by_id(previous), known, inputs, {one.page_id: one for one in known.values()}
        )
        sync.shas = {
            page.name: sha for page in plan.pages if (sha := _sha256(tree, page.name, known, state.get("began")))
        }
        exact = identify(self.key, sync.shas, known)
        sync.plan = self._addressed(plan, exact)
        sync.page_ids = self._similar(sync, exact)
        if sync.page_ids != exact:
            sync.plan = self._addressed(plan, sync.page_ids)
            sync.bodies.clear()
        sync.plan_digest = digest(settings_digest(self.key, self._settings), _shape(tree, sync.plan))
        self._refuse_loss(sync)
        return sync

    def _kept_pages(self, tree: FileTree, plan: SitePlan) -> SitePlan:
        """Return the plan without changelogs, unless they are asked for, and with a reason for other documents."""
        excluded = dict(plan.excluded)
        pages = []
        for page in plan.pages:
            if not self._settings.changelogs and _is_changelog(page.name):
                excluded[page.name] = f"it is a changelog; they are read with sources.{self.key}.changelogs: true"
            else:
                pages.append(page)
        named = {page.name for page in pages} | excluded.keys()
        for name in tree.names:
            if name not in named and kind_by_name(name) not in _ASSETS:
                excluded[name] = f"no page of a {plan.generator} site is made of it"
        return replace(plan, pages=pages, excluded=excluded)

    def _addressed(self, plan: SitePlan, page_ids: Mapping[str, str]) -> SitePlan:
        base = self._settings.base_url
        if base is not None:
            base = f"{base.rstrip('/')}/"
            return replace(plan, base_url=base, addresses={page.name: f"{base}{page.path}" for page in plan.pages})
        prefix = self._settings.id_prefix
        addresses = {name: self._reading.address(f"{prefix}{page_id}") for name, page_id in page_ids.items()}
        return replace(plan, addresses=addresses)

    def _similar(self, sync: _Sync, exact: dict[str, str]) -> dict[str, str]:
        """Return the page of each file, those included that were renamed and changed at once."""
        names, ids = {page.name for page in sync.plan.pages}, set(exact.values())
        gone = {
            name: row["body"]
            for name, one in sync.known.items()
            if name not in names and one.page_id not in ids and (row := sync.before.get(self._id(one.page_id)))
        }
        new = [page for page in sync.plan.pages if page.name in exact and exact[page.name] not in sync.known_ids]
        if not gone or not new:
            return exact
        for page in new:
            body = self._body(page, sync)
            if isinstance(body, SiteBody):
                sync.bodies[page.name] = body
        pairs = renamed(gone, {name: body.html for name, body in sync.bodies.items()})
        return exact | {name: sync.known[old].page_id for name, old in pairs.items()}

    def _take(self, page: SitePage, sync: _Sync) -> None:
        row_id = self._row_id(page.name, sync)
        known = sync.known_ids.get(sync.page_ids.get(page.name, ""))
        last, was_read = sync.before.get(row_id), sync.inputs.get(page.name)
        reads: list[str] = was_read[1] if was_read else []
        left_out = known.left_out if known else None
        if known and was_read and was_read[0] == self._inputs(page, sync, reads) and (left_out or last):
            if last is not None and left_out is None:
                sync.rows[row_id] = last
        else:
            body = self._body(page, sync)
            left_out = body if isinstance(body, list) else None
            if isinstance(body, SiteBody):
                version = max(known.version if known else 0, last["version"] if last else 0)
                address = sync.plan.address(page)
                facts = PageFacts(self.key, row_id, address, version, sync.tree.written_at(page.name))
                sync.rows[row_id] = row_of(self._settings, facts, page, body, last)
                reads = list(body.read)
        if left_out is not None:
            self._leave_out(page, left_out, row_id, sync)
        self._remember(page, left_out, reads, sync)

    def _remember(self, page: SitePage, left_out: list[str] | None, reads: list[str], sync: _Sync) -> None:
        """Note what the next sync needs to know of a page; of one that cannot be opened nothing is known."""
        sha, page_id = sync.shas.get(page.name), sync.page_ids.get(page.name)
        if sha is None or page_id is None:
            return
        known, row = sync.known_ids.get(page_id), sync.rows.get(self._id(page_id))
        version = int(row["version"]) if row else known.version if known else 0
        sync.now[page.name] = Known(page_id, sha, version, _stamp(sync.tree, page.name), left_out)
        sync.inputs_now[page.name] = [self._inputs(page, sync, reads), reads]

    def _body(self, page: SitePage, sync: _Sync) -> SiteBody | list[str]:
        """Return a page's body, else what it is (`excluded`, `failed`) and why."""
        if page.name in sync.bodies:
            return sync.bodies.pop(page.name)
        try:
            body = sync.site.body(sync.tree, sync.plan, page)
        except ExcludedPageError as error:
            return ["excluded", str(error)]
        except FileError as error:
            return ["failed", str(error)]
        except (KeyError, RecursionError) as error:
            return ["failed", f"it cannot be read: {type(error).__name__} {error}"[:300]]
        except Exception as error:  # a fault in one page is reported; the others still arrive
            return ["failed", " ".join(f"unexpected {type(error).__name__}: {error}"[:300].split())]
        return body

    def _inputs(self, page: SitePage, sync: _Sync, reads: list[str]) -> str:
        """Return a digest of all that a page's text is made of; files that are gone count, too."""
        tree, plan = sync.tree, sync.plan
        known = frozenset(tree.names)
        included = [f"{name}:{tree.stamp(name) if name in known else ''}" for name in reads]
        return digest(sync.shas.get(page.name, ""), sync.plan_digest, plan.address(page), *included)

    def _leave_out(self, page: SitePage, left_out: list[str], row_id: str, sync: _Sync) -> None:
        """Record why a page gave no row; the last version that could be read stays, as a failure's does."""
        kind, why = left_out
        if kind == "excluded":
            sync.excluded[row_id] = f"{page.name}: {why}"
            return
        if (row := sync.before.get(row_id)) is not None:
            sync.rows[row_id] = row
            why += "; its last version stays"
        sync.failures[row_id] = f"{page.name}: {why}"

    def _id(self, page_id: str) -> str:
        return f"{self._settings.id_prefix}{page_id}"

    def _row_id(self, name: str, sync: _Sync) -> str:
        """Return the id of a page's row; a file that is no page has the id of its name."""
        return self._id(sync.page_ids.get(name) or f"{MARK}{digest(self.key, name)[:16]}")

    def _refuse_loss(self, sync: _Sync) -> None:
        """Refuse to delete a large share at once.

        Raises:
            SourceError: so much is gone that the folder may not be whole, or not mounted.
        """
        there = {self._row_id(page.name, sync) for page in sync.plan.pages}
        there |= {self._row_id(name, sync) for name in sync.plan.excluded}
        gone, before = len(sync.before.keys() - there), len(sync.before)
        allowed = self._settings.max_deleted_share
        if gone > 1 and gone / before > allowed:
            raise SourceError(
                f"{self._settings.path} lacks {gone} of {before} pages, more than max_deleted_share {allowed:g}; "
                f"nothing was deleted. If they were deleted on purpose, set sources.{self.key}.max_deleted_share to 1 "
                "for one build"
            )

    def _notes(self) -> list[str]:
        if self._settings.readers != "from_source":
            return []
        return [
            f"files do not say who may read them, so nobody can read source {self.key!r}; "
            f"set sources.{self.key}.readers to everyone or to a list of group:NAME and user:NAME"
        ]


def _planned(site: Site, tree: FileTree, key: str) -> SitePlan:
    """Return the plan of a site.

    Raises:
        SourceError: the files that say what its pages are cannot be read.
    """
    try:
        return site.plan(tree)
    except FileError as error:
        raise SourceError(f"the pages of source {key!r} cannot be told: {error}; mend the file") from None


def _shape(tree: FileTree, plan: SitePlan) -> str:
    """Return a digest of what all pages of a plan depend on: their names and addresses, files with settings."""
    names = frozenset(tree.names)
    parts = [plan.generator, plan.base_url]
    parts += [f"{name}:{tree.stamp(name)}" for name in plan.settings if name in names]
    for page in plan.pages:
        said = (page.name, page.path, page.title or "", page.category or "", page.number or "", *page.parents)
        parts += [*said, plan.address(page)]
    return digest(*parts)


def _is_changelog(name: str) -> bool:
    parts = name.split("/")
    return any(_CHANGELOG.fullmatch(posixpath.splitext(part)[0]) for part in parts[-2:])


def _asset_note(sync: _Sync) -> list[str]:
    named = {page.name for page in sync.plan.pages} | sync.plan.excluded.keys()
    count = sum(name not in named for name in sync.tree.names)
    return [f"{count} files are no documents: pictures, settings, source code"] if count else []


def _sha256(tree: FileTree, name: str, known: Mapping[str, Known], began: object) -> str | None:
    """Return the digest of a file's content: the known one where nothing was written since. None: not readable."""
    one = known.get(name)
    was_settled = isinstance(began, float) and tree.written_at(name).timestamp() < began - _CANNOT_TELL_S
    if one is not None and one.stamp == _stamp(tree, name) and was_settled:
        return one.sha256
    try:
        return hashlib.sha256(tree.read(name)).hexdigest()
    except (FileError, KeyError):
        return None


def _stamp(tree: FileTree, name: str) -> list[Any]:
    return [tree.stamp(name)]


def _remembered(state: Mapping[str, Any]) -> tuple[dict[str, Known], dict[str, list[Any]]]:
    """Return what the last sync knew of the files, and what their text was made of, by name."""
    files, inputs = state.get("files"), state.get("inputs")
    if state.get("reading") != READING_VERSION or not isinstance(files, dict) or not isinstance(inputs, dict):
        return {}, {}
    known = {name: one for name, value in files.items() if (one := Known.load(value)) is not None}
    return known, inputs
