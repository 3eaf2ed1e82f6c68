"""The pages of a site in one sync: which are read anew, and what becomes of each.

Belongs here: what the text of a page depends on, rows that stay, reasons of pages without one.
Does not belong here: which page a file is (`source`), reading a page (`page_reader`), its row (`rows`), documents
beside the pages (`documents.document_pages`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.base import Row, digest, settings_digest
from rag_assets.sources.documents.document_pages import shown_name
from rag_assets.sources.documents.renames import Known
from rag_assets.sources.sites.page_reader import SitePageReader
from rag_assets.sources.sites.planning import plan_digest
from rag_assets.sources.sites.rows import PageFacts, row_of
from rag_assets.sources.sites.site import ExcludedPageError, Site, SiteBody, SitePage, SitePlan, has_file
from rag_assets.sources.sites.trees import FileTree
from rag_assets.steps.files.records import FileError, needs
from rag_serving.config.sources import SiteSource


@dataclass(frozen=True)
class PageInputs:
    """What the text of a page was made of: a digest of it all, files that it includes, whether all pages count."""

    digest: str
    reads: tuple[str, ...]
    reads_site: bool

    def dump(self) -> list[Any]:
        """Return it as JSON has it."""
        return [self.digest, list(self.reads), self.reads_site]

    @classmethod
    def load(cls, value: Any) -> PageInputs | None:
        """Return what `dump` wrote; None for anything else."""
        match value:
            case [str(made_of), [*reads], bool(reads_site)]:
                return cls(made_of, tuple(map(str, reads)), reads_site)
        return None


@dataclass
class PageSync:
    """What becomes of the pages, by row id; `now` and `inputs_now`: what is remembered of them, by name."""

    key: str
    settings: SiteSource
    tree: FileTree
    site: Site
    plan: SitePlan
    before: Mapping[str, Row]
    known: Mapping[str, Known]  # by page id
    inputs: Mapping[str, PageInputs]  # of the last sync, by name
    shas: Mapping[str, str]  # SHA-256 by name
    page_ids: Mapping[str, str]  # by name
    pages: SitePageReader
    reader: LimitedReader
    rows: dict[str, Row] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    now: dict[str, Known] = field(default_factory=dict)
    inputs_now: dict[str, PageInputs] = field(default_factory=dict)

    @cached_property
    def plan_digest(self) -> str:
        """Of what all pages depend on."""
        return digest(settings_digest(self.key, self.settings), plan_digest(self.tree, self.plan))

    @cached_property
    def facts_digest(self) -> str:
        """Of what all pages say that another one may refer to."""
        return digest(repr(self.plan.facts))

    def take(self, page: SitePage, row_id: str, body: SiteBody | None = None) -> None:
        """Read a page, unless nothing that its text is made of changed; `body`: it was read already."""
        known = self.known.get(self.page_ids.get(page.name, ""))
        last, inputs = self.before.get(row_id), self.inputs.get(page.name)
        left_out = known.left_out if known else None
        is_past = left_out is not None and self.reader.is_past(left_out[1])
        if known and inputs and inputs == self._inputs(page, inputs) and not is_past and (left_out or last):
            if last is not None and left_out is None:
                self.rows[row_id] = last
        else:
            found = body or self.body(page)
            left_out = None if isinstance(found, SiteBody) else found
            if isinstance(found, SiteBody):
                version = max(known.version if known else 0, last["version"] if last else 0)
                address = self.plan.address(page)
                facts = PageFacts(self.key, row_id, address, version, self.tree.written_at(page.name))
                self.rows[row_id] = row_of(self.settings, facts, page, found, last)
                inputs = PageInputs("", found.read, found.reads_site)
        if left_out is not None:
            self._leave_out(page, left_out, row_id)
        self._remember(page, row_id, left_out, inputs or PageInputs("", (), False))

    def body(self, page: SitePage) -> SiteBody | list[str]:
        """Return a page's body, else what it is (`excluded`, `failed`) and why."""
        try:
            return self.pages.body(self.site, self.tree, self.plan, page)
        except ExcludedPageError as error:
            return ["excluded", str(error)]
        except FileError as error:
            return ["failed", str(error)]
        except ImportError as error:
            return ["failed", needs(error)]
        except (KeyError, RecursionError) as error:
            return ["failed", f"it cannot be read: {type(error).__name__} {error}"[:300]]
        except Exception as error:  # a fault in one page is reported; the others still arrive
            return ["failed", " ".join(f"unexpected {type(error).__name__}: {error}"[:300].split())]

    def _inputs(self, page: SitePage, last: PageInputs) -> PageInputs:
        """Return what a page's text is made of now, if it includes what it did; files that are gone count, too."""
        included = [f"{name}:{self.tree.stamp(name) if has_file(self.tree, name) else ''}" for name in last.reads]
        site = self.facts_digest if last.reads_site else ""
        address = self.plan.address(page)
        made_of = digest(self.shas.get(page.name, ""), self.plan_digest, address, site, *included)
        return PageInputs(made_of, last.reads, last.reads_site)

    def _remember(self, page: SitePage, row_id: str, left_out: list[str] | None, inputs: PageInputs) -> None:
        """Note what the next sync needs to know of a page; of one that cannot be opened nothing is known."""
        sha, page_id = self.shas.get(page.name), self.page_ids.get(page.name)
        if sha is None or page_id is None:
            return
        known, row = self.known.get(page_id), self.rows.get(row_id)
        version = int(row["version"]) if row else known.version if known else 0
        self.now[page.name] = Known(page_id, sha, version, [self.tree.stamp(page.name)], left_out)
        self.inputs_now[page.name] = self._inputs(page, inputs)

    def _leave_out(self, page: SitePage, left_out: list[str], row_id: str) -> None:
        """Record why a page gave no row; the last version that could be read stays, as a failure's does."""
        kind, why = left_out
        label = shown_name(page.name)
        if kind == "excluded":
            self.excluded[row_id] = f"{label}: {why}"
            return
        if (row := self.before.get(row_id)) is not None:
            self.rows[row_id] = row
            why += "; its last version stays"
        self.failures[row_id] = f"{label}: {why}"
