"""A documentation site or book as a source: each page of it is a page, each PDF or Office file beside them, too.

A working tree may lack files that its index has: a checkout under way or not whole, or `rm` alone. The tree alone does
not show which: git writes a file's absence into its index when it removes it (`git rm`, `git pull`), and only then the
list of files is complete without it. The index is read in git's own format (Documentation/gitformat-index.txt),
versions 2 to 4; no program is run and nothing is written.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.base import READING_VERSION, Progress, Row, SyncResult, closed_notes, finish, rows_by_id
from rag_assets.sources.documents import document_pages
from rag_assets.sources.sites.page_sync import PageInputs, PageSync, SitePageReader, addressed, placed, planned, renamed
from rag_assets.sources.sites.site import SUMMARY, FileTree, SiteBody, SitePlan, SubTree, found_site
from rag_assets.steps.files.records import FileError
from rag_serving.config.sources import MarkdownBook, SiteSource
from rag_serving.documents.kinds import is_document_name

_LINK = re.compile(r"<link\b([^<>]{1,2000})>", re.I)
_ATTRIBUTE = re.compile(
    r"""\b(rel|href)\s{0,9}=\s{0,9}(?:"([^"<>]{0,2000})"|'([^'<>]{0,2000})'|([^\s"'<>]{1,2000}))""", re.I
)
_HEAD_MAX = 64 * 1024  # bytes


def with_canonical(
    plan: SitePlan, tree: FileTree, known: Mapping[str, document_pages.Known], began: object, found: Mapping[str, str]
) -> SitePlan:
    """Return the plan of a built site with each page's canonical address; only changed and new files are opened.
    `known`, `began`: as those of `is_unchanged`; `found`: addresses at the last sync by name, empty if a page has
    none."""
    if plan.generator != "html":
        return plan
    pages = [
        replace(
            page,
            canonical=found[page.name]
            if page.name in found and document_pages.is_unchanged(tree, page.name, known.get(page.name), began)
            else _address(tree, page.name),
        )
        for page in plan.pages
    ]
    return replace(plan, pages=pages)


def _address(tree: FileTree, name: str) -> str:
    """Return the address that a page calls its own; empty if it names none, or cannot be read."""
    try:
        head = tree.read(name)[:_HEAD_MAX].decode("utf-8", "replace")
    except (FileError, KeyError):
        return ""
    for link in _LINK.findall(head):
        values = {name.lower(): one or other or bare for name, one, other, bare in _ATTRIBUTE.findall(link)}
        if values.get("rel", "").lower() == "canonical":
            return unescape(values.get("href", "")).strip()
    return ""


TRACKED = "its file is missing, though git tracks it: `git rm` takes its page away, `git checkout` brings it back"
LOCKED = "its file is missing while git writes its index: remove .git/index.lock if no git runs"
UNREADABLE = "its file is missing, and git's index cannot be read to tell whether it is deleted: run `git status`"
INDEX_MAX = 512 * 1024**2
_HEAD = struct.Struct("!4sII")
_STAT_SIZE = 40  # times, device, inode, mode, owner, group, size
_EXTENDED, _SKIP_WORKTREE = 0x4000, 0x4000


class _BrokenIndexError(Exception):
    """An index that cannot be read."""


def missing_files(folder: Path, gone: Collection[str]) -> dict[str, str] | None:
    """Return those of the gone files (names below a folder) which git says should be there, each with the reason why it
    does not count as deleted; None if git tracks no file of the folder. While git writes its index, none that is gone
    counts as deleted. Files that a sparse checkout leaves out are gone."""
    found = _git_folder(folder.absolute()) if gone else None
    if found is None:
        return None
    git, prefix = found
    if (git / "index.lock").exists():
        return dict.fromkeys(gone, LOCKED)
    try:
        tracked = _tracked(git)
    except FileNotFoundError:
        return None
    except (OSError, _BrokenIndexError):
        return dict.fromkeys(gone, UNREADABLE)
    if not any(name.startswith(prefix) for name in tracked):
        return None
    folders = tuple(name for name in tracked if name.endswith("/"))  # of a sparse index
    kept = (name for name in gone if f"{prefix}{name}" in tracked or f"{prefix}{name}".startswith(folders))
    return dict.fromkeys(kept, TRACKED)


def _git_folder(folder: Path) -> tuple[Path, str] | None:
    for above in (folder, *folder.parents):
        git = above / ".git"
        prefix = "".join(f"{part}/" for part in folder.relative_to(above).parts)
        if git.is_dir():
            return git, prefix
        if git.is_file():
            try:
                told = git.read_text(encoding="utf-8", errors="replace")[:4096]
            except OSError:
                return None
            return above / told.partition("gitdir:")[2].strip(), prefix
    return None


def _tracked(git: Path) -> set[str]:
    """Return the names in an index. Raises OSError: it cannot be read. _BrokenIndexError: it is none."""
    path = git / "index"
    if path.stat().st_size > INDEX_MAX:
        raise _BrokenIndexError
    try:
        config = git / "config"
        is_sha256 = config.is_file() and b"objectformat = sha256" in config.read_bytes()[:100_000].lower()
        return set(_names(path.read_bytes(), 32 if is_sha256 else 20))
    except (struct.error, ValueError, IndexError):
        raise _BrokenIndexError from None


def _names(content: bytes, digest_size: int) -> Iterator[str]:
    """Yield the names of the entries that should be in the working tree. Raises ValueError, IndexError, struct.error:
    it is no index."""
    magic, version, count = _HEAD.unpack_from(content)
    if magic != b"DIRC" or version not in (2, 3, 4):
        raise ValueError
    at, name = _HEAD.size, b""
    for _ in range(count):
        begin = at
        at += _STAT_SIZE + digest_size
        (flags,) = struct.unpack_from("!H", content, at)
        at += 2
        further = 0
        if flags & _EXTENDED and version > 2:
            (further,) = struct.unpack_from("!H", content, at)
            at += 2
        if version == 4:
            cut, at = _varint(content, at)
            name = name[: len(name) - cut] if cut else name
        else:
            name = b""
        end = content.index(b"\0", at)
        name += content[at:end]
        at = end + 1 if version == 4 else begin + (end - begin) // 8 * 8 + 8
        if not further & _SKIP_WORKTREE:
            yield name.decode("utf-8", "surrogateescape")


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = content[at] & 0x7F
    while content[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (content[at] & 0x7F)
    return value, at + 1


NO_DOCUMENTS = "pictures, settings, source code"
"""How the note ends that counts the files of a site which are no documents; nothing is wrong with them."""


@dataclass(frozen=True)
class _Last:
    rows: Mapping[str, Row]  # by id
    known: Mapping[str, document_pages.Known]  # by name
    inputs: Mapping[str, PageInputs]  # by name
    canonical: Mapping[str, str]  # by name (`canonical`)
    began: object  # in seconds since 1970

    @property
    def by_id(self) -> dict[str, document_pages.Known]:
        """The known files, by page id."""
        return {one.page_id: one for one in self.known.values()}


class SiteFolder(document_pages.FileSource[SiteSource]):
    """The pages of a site, read from the files that its generator reads."""

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Read the pages whose files, or other inputs, changed; the others keep their text."""
        began, reading = time.time(), self._reading
        canonical = state.get("canonical")
        found = canonical if isinstance(canonical, dict) else {}
        last = _Last(
            rows=rows_by_id(previous),
            known=document_pages.known_files(state),
            inputs=_known_inputs(state),
            canonical={name: address for name, address in found.items() if isinstance(address, str)},
            began=state.get("began"),
        )
        with (
            self._tree() as whole,
            nullcontext(reading.reader) if reading.reader else reading.limited() as reader,
            SitePageReader(reader.limits) as page_reader,
        ):
            folder, sync = self._begun(whole, last, reader, page_reader)
            sync, bodies = self._with_renames(sync, last)
            maker = document_pages.RowMaker(self.key, self._settings, sync.reader, self._reading.originals)
            twins = document_pages.rows_by_content(last.known, last.rows, self._settings.id_prefix)
            twins = {content: row for content, row in twins.items() if is_document_name(f"x.{content[1]}")}
            documents = document_pages.DocumentPages(sync.tree, last.rows, last.by_id, maker, twins)
            names = {*sync.plan.by_name, *sync.plan.excluded}
            ids = set(sync.page_ids.values())
            gone = [name for name, one in last.known.items() if name not in names and one.page_id not in ids]
            missing = missing_files(self._settings.path / folder, gone)
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
        is_book = isinstance(self._settings, MarkdownBook) and SUMMARY in whole.names
        wanted = "mdbook" if is_book and self._settings.site == "auto" else self._settings.site
        _, folder, site = found_site(whole.names, wanted, self.key)
        tree = SubTree(whole, folder) if folder else whole
        plan = planned(site, tree, self.key, self._settings)
        if self._settings.base_url is not None:  # else addresses are Citelock's own
            plan = with_canonical(plan, tree, last.known, last.began, last.canonical)
        digests = {
            page.name: document_pages.content_digest(tree, page.name, last.known.get(page.name), last.began)
            for page in (*plan.pages, *plan.documents)
        }
        shas = {name: sha for name, sha in digests.items() if sha}
        page_ids = document_pages.identify(self.key, shas, last.known)
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
        """Return a sync in which files that were renamed and changed at once keep their page ids, and the bodies that
        were read to compare and are still valid."""
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

    def _document(self, name: str, sync: PageSync) -> document_pages.DocumentFile:
        row_id, page_id = self._row_id(sync.page_ids.get(name), name), sync.page_ids.get(name)
        url = sync.plan.address(sync.plan.by_name[name])
        stamp, written_at = sync.tree.stamp(name), sync.tree.written_at(name)
        return document_pages.DocumentFile(name, page_id, row_id, sync.shas.get(name), stamp, written_at, url)

    def _result(
        self, sync: PageSync, documents: document_pages.DocumentPages, last: _Last, began: float, is_confirmed: bool
    ) -> SyncResult:
        excluded = {
            self._row_id(sync.page_ids.get(name), name): f"{document_pages.shown_name(name)}: {reason}"
            for name, reason in sync.plan.excluded.items()
        }
        rows = {**sync.rows, **documents.rows}
        placed(sync.plan, {name: self._id(page_id) for name, page_id in sync.page_ids.items()}, rows)
        files = {**sync.now, **documents.now}
        failures = {**sync.failures, **documents.failures}
        enumerated = len(sync.plan.pages) + len(sync.plan.documents) + len(sync.plan.excluded)
        missing = len(files.keys() - sync.plan.by_name.keys())
        named = sync.plan.by_name.keys() | sync.plan.excluded.keys()
        others = sum(name not in named for name in sync.tree.names)
        said = "1 file is no document" if others == 1 else f"{others} files are no documents"
        return finish(
            self._settings,
            last.rows,
            rows,
            seen=enumerated + missing,
            excluded=[*excluded.items(), *sync.excluded.items(), *documents.excluded.items()],
            failures=failures.items(),
            notes=[
                *closed_notes(self._settings, self.key, document_pages.CLOSED),
                *([f"{said}: {NO_DOCUMENTS}"] if others else []),
            ],
            state={
                "files": {name: one.dump() for name, one in files.items()},
                "inputs": {name: one.dump() for name, one in sync.inputs_now.items()},
                "canonical": {page.name: page.canonical for page in sync.plan.pages} if sync.plan.base_url else {},
                "began": began,
                "reading": READING_VERSION,
            },
            is_confirmed=is_confirmed,
        )


def _known_inputs(state: Mapping[str, Any]) -> dict[str, PageInputs]:
    inputs = state.get("inputs")
    if state.get("reading") != READING_VERSION or not isinstance(inputs, dict):
        return {}
    return {name: one for name, value in inputs.items() if (one := PageInputs.load(value)) is not None}
