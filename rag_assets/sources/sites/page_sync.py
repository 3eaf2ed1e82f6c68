"""The pages of a site in one sync: which files are pages, which are read anew, and what becomes of each.
Small ones are read here, others in a process of its own, within limits."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from types import MappingProxyType, TracebackType
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

from rag_assets.parsing.reader import LimitedReader
from rag_assets.parsing.worker import outcome, result_of
from rag_assets.sources.base import Row, SourceError, digest, settings_digest
from rag_assets.sources.documents.document_pages import DocumentReading, Known, shown_name
from rag_assets.sources.envelope import content_hash
from rag_assets.sources.sites.site import (
    ExcludedPageError,
    FileTree,
    Site,
    SiteBody,
    SitePage,
    SitePlan,
    SourceTree,
    has_file,
    open_site,
    quoted,
    text_of,
)
from rag_assets.steps.files.records import FileError, needs
from rag_assets.steps.formats.blocks import clean
from rag_assets.steps.formats.macros import with_losses
from rag_assets.steps.readers import space_readers
from rag_serving.config.sources import SiteSource
from rag_serving.documents.kinds import is_document_name, kind_by_name
from rag_serving.isolation.child import Child, Frame, Limits, ParseError, module_command
from rag_serving.isolation.serving import run


class GivenTree:
    """The files sent with a request; `needs` names others that a page used."""

    def __init__(self, names: list[str], files: Mapping[str, bytes], unreadable: Mapping[str, str]) -> None:
        self.names = names
        self.needs: dict[str, None] = {}
        self._files, self._unreadable = files, unreadable

    def stamp(self, name: str) -> str:
        """See `Tree`. No page needs it."""
        raise KeyError(name)

    def read(self, name: str) -> bytes:
        if name in self._files:
            return self._files[name]
        if name in self._unreadable:
            raise FileError(self._unreadable[name])
        if has_file(self, name):
            self.needs[name] = None
        raise KeyError(name)


def _answer(request: Frame, requests: IO[bytes]) -> Frame:
    return Frame(outcome(Limits(*request.facts["limits"]), requests, lambda: _page(request)))


def _page(request: Frame) -> dict[str, Any]:
    facts = request.facts
    plan = plan_of_json(facts["plan"])
    tree = GivenTree(facts["names"], dict(_files(facts["files"], request.content)), facts["unreadable"])
    try:
        body = open_site(plan.generator).body(tree, plan, plan.by_name[facts["page"]])
    except ExcludedPageError as error:
        return {"excluded": str(error)}
    except FileError:
        if not tree.needs:
            raise
    return {"needs": list(tree.needs)} if tree.needs else {"body": body_to_json(body)}


def _files(sizes: list[list[Any]], content: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    for name, size in sizes:
        yield name, content[at : at + size]
        at += size


WORKER = module_command("rag_assets.sources.sites.page_sync")
HERE_MAX = 128 * 1024
"""Bytes of a page and what it includes that are read in this process: the worst take some seconds."""
_HERE_MAX_OF = MappingProxyType({"sphinx": 16 * 1024})
"""Of generators whose markup takes longer: docutils needs ten times the time of a parser of Markdown."""
_ROUNDS_MAX = 16
_FILES_MAX = 64_000_000  # bytes


class _LargePageError(Exception):
    """A page is to be read elsewhere."""


class SitePageReader:
    """Reads pages; what takes too much is an error of that one page."""

    def __init__(self, limits: Limits, child: Child | None = None) -> None:
        self._limits = limits
        self._child = child or Child(limits, WORKER)
        self._told: tuple[SitePlan, dict[str, Any]] | None = None  # a plan and its JSON

    def __enter__(self) -> SitePageReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.close()

    def body(self, site: Site, tree: SourceTree, plan: SitePlan, page: SitePage) -> SiteBody:
        """Return the body of a page. Raises ExcludedPageError: it is left out on purpose. Raises FileError: it cannot
        be read, or takes too much."""
        try:
            return site.body(_SmallTree(tree, _HERE_MAX_OF.get(plan.generator, HERE_MAX)), plan, page)
        except _LargePageError:
            return self._read_elsewhere(tree, plan, page)

    def _read_elsewhere(self, tree: SourceTree, plan: SitePlan, page: SitePage) -> SiteBody:
        if self._told is None or self._told[0] is not plan:
            self._told = (plan, plan_to_json(plan))
        files: dict[str, bytes] = {}
        unreadable: dict[str, str] = {}
        wanted: Sequence[str] = [page.name]
        for _ in range(_ROUNDS_MAX):
            for name in wanted:
                try:
                    files[name] = tree.read(name)
                except FileError as error:
                    unreadable[name] = str(error)
                except KeyError:
                    unreadable[name] = "it is not there"
            if sum(map(len, files.values())) > _FILES_MAX:
                raise FileError(f"it and what it includes are larger than {_FILES_MAX:,} bytes")
            facts = {
                "limits": self._limits,
                "page": page.name,
                "plan": self._told[1],
                "names": list(tree.names),
                "files": [[name, len(content)] for name, content in files.items()],
                "unreadable": unreadable,
            }
            result = self._result(Frame(facts, b"".join(files.values())))
            wanted = result.get("needs", ())
            if not wanted:
                if "excluded" in result:
                    raise ExcludedPageError(str(result["excluded"]))
                try:
                    fields = {**result["body"]}
                    moment = fields["updated_at"]
                    fields |= {"labels": tuple(fields["labels"]), "read": tuple(fields["read"])}
                    return SiteBody(**{**fields, "updated_at": datetime.fromisoformat(moment) if moment else None})
                except (KeyError, TypeError, ValueError):
                    raise FileError("its parser failed: it wrote something else than an answer") from None
        raise FileError(f"its includes are nested more than {_ROUNDS_MAX} deep")

    def _result(self, request: Frame) -> Mapping[str, Any]:
        try:
            result = result_of(self._child.ask(request).facts, self._limits)
        except ParseError as error:
            raise FileError(str(error)) from None
        if not isinstance(result, dict):
            raise FileError("its parser failed: it wrote something else than an answer")
        return result


def plan_to_json(plan: SitePlan) -> dict[str, Any]:
    """Return a plan as JSON, without fields for the source alone."""
    return {**asdict(plan), "excluded": {}, "settings": []}


def plan_of_json(told: Mapping[str, Any]) -> SitePlan:
    """Return the plan of `plan_to_json`."""
    pages = [SitePage(**{**page, "parents": tuple(page["parents"])}) for page in told["pages"]]
    documents = [SitePage(**{**page, "parents": tuple(page["parents"])}) for page in told["documents"]]
    return SitePlan(**{**told, "pages": pages, "documents": documents, "roots": tuple(told["roots"])})


def body_to_json(body: SiteBody) -> dict[str, Any]:
    """Return a body as JSON has it."""
    moment = body.updated_at.isoformat() if body.updated_at else None
    return {**asdict(replace(body, lost=dict(body.lost))), "updated_at": moment}


class _SmallTree:
    """A tree of which only so much may be read."""

    def __init__(self, tree: SourceTree, most: int) -> None:
        self._tree, self._left = tree, most
        self.names = tree.names

    def stamp(self, name: str) -> str:
        return self._tree.stamp(name)

    def read(self, name: str) -> bytes:
        """See `SourceTree`. Raises _LargePageError if it is too much."""
        content = self._tree.read(name)
        self._left -= len(content)
        if self._left < 0:
            raise _LargePageError
        return content


if __name__ == "__main__":
    run(_answer, ("lxml.html", "rag_assets.sources.sites.mdbook"))


_CHANGELOG = re.compile(r"change[-_ ]?logs?|release[-_ ]?(?:notes|history)|whats?[-_ ]?new", re.I)
_MAYBE = re.compile(r"changes|history|news", re.I)
_RELEASE = re.compile(r"^(?:#{1,6} {1,3}|[*]{2})?\[?(?:v|version |release )?\d{1,4}\.\d{1,4}", re.I | re.MULTILINE)
_HEAD_MAX, _RELEASES = 100_000, 2
_ASSETS = frozenset({"code", "table", "image", None})


def planned(site: Site, tree: SourceTree, key: str, settings: SiteSource) -> SitePlan:
    """Return the pages and documents of a site, and a reason for each other file that has text. Raises SourceError: the
    files with its plan cannot be read."""
    try:
        plan = site.plan(tree)
    except FileError as error:
        raise SourceError(f"the pages of source {key!r} cannot be told: {error}; mend the file") from None
    excluded = dict(plan.excluded)
    pages: list[SitePage] = []
    for page in plan.pages:
        if not settings.changelogs and is_changelog(tree, page.name):
            excluded[page.name] = f"it is a changelog; they are read with sources.{key}.changelogs: true"
        else:
            pages.append(page)
    documents: list[SitePage] = []
    named = {page.name for page in pages} | excluded.keys()
    for name in tree.names:
        if name in named:
            continue
        if is_document_name(name):
            inside = [root for root in plan.roots if not root or name.startswith(f"{root}/")]
            root = max(inside, key=len, default="")
            documents.append(SitePage(name, quoted(name[len(root) :].lstrip("/")), is_document=True))
        elif kind_by_name(name) not in _ASSETS:
            excluded[name] = f"no page of a {plan.generator} site is made of it"
    return replace(plan, pages=pages, excluded=excluded, documents=documents)


def is_changelog(tree: SourceTree, name: str) -> bool:
    """Return whether a file or its folder is named like a list of changes; an ambiguous name, such as `history`, counts
    if the file names releases."""
    parts = [posixpath.splitext(part)[0] for part in name.split("/")[-2:]]
    if any(map(_CHANGELOG.fullmatch, parts)):
        return True
    if not any(map(_MAYBE.fullmatch, parts)):
        return False
    try:
        text = text_of(tree.read(name)[:_HEAD_MAX])
    except FileError:
        return False
    return len(_RELEASE.findall(text)) >= _RELEASES or bool(_RELEASE.match(parts[-1]))


def addressed(plan: SitePlan, settings: SiteSource, reading: DocumentReading, page_ids: Mapping[str, str]) -> SitePlan:
    """Return a plan with the addresses of its pages: below `base_url`, else where Citelock shows them. The address that
    a page calls its own counts where it lies below `base_url` and no other page has it: of several versions of a page
    all but one name another one's."""
    if settings.base_url is None:
        prefix = settings.id_prefix
        shown = {name: reading.address(f"{prefix}{page_id}") for name, page_id in page_ids.items()}
        return replace(plan, addresses=shown)
    base = f"{settings.base_url.rstrip('/')}/"
    own = {page.name: f"{base}{page.path}" for page in (*plan.pages, *plan.documents)}
    named = {page.name: url for page in plan.pages if (url := _canonical(page, own[page.name], base))}
    claims = Counter(_same(url) for url in named.values())
    others = {_same(url): name for name, url in own.items()}
    canonical = {
        name: url for name, url in named.items() if claims[_same(url)] == 1 and others.get(_same(url), name) == name
    }
    return replace(plan, base_url=base, addresses={**own, **canonical})


def plan_digest(tree: SourceTree, plan: SitePlan) -> str:
    """Return a digest of the common inputs of a plan's pages: their names and addresses, files with settings."""
    parts = [plan.generator, plan.base_url]
    parts += [f"{name}:{tree.stamp(name)}" for name in plan.settings if has_file(tree, name)]
    for page in plan.pages:
        said = (page.name, page.path, page.title or "", page.category or "", page.number or "", *page.parents)
        parts += [*said, plan.address(page)]
    parts += [f"{page.name}:{plan.address(page)}" for page in plan.documents]
    return digest(*parts)


def _canonical(page: SitePage, own: str, base: str) -> str:
    """Return the address that a page calls its own; empty if that does not lie below `base`."""
    if not page.canonical:
        return ""
    try:
        url = urlsplit(urljoin(own, page.canonical))
        above = urlsplit(base)
        is_below = (url.hostname, url.port) == (above.hostname, above.port) and url.path.startswith(above.path)
    except ValueError:
        return ""
    if not is_below or url.scheme not in ("http", "https") or url.query or url.username:
        return ""
    return url._replace(fragment="").geturl()


def _same(url: str) -> str:
    return url.partition("://")[2].removesuffix("index.html").rstrip("/")


TITLE_MAX, LABEL_MAX, LABELS_MAX = 500, 200, 100
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True)
class PageFacts:
    """A page's fields beside its text; `version`: the highest that the page had, 0 if it is new."""

    source: str
    page_id: str
    url: str
    version: int
    written_at: datetime


def row_of(settings: SiteSource, facts: PageFacts, page: SitePage, body: SiteBody, last: Row | None) -> Row:
    """Return the row of a page that was read; one that says the same as the last keeps its version and time."""
    title = _line(body.title, TITLE_MAX) or _line(page.name, TITLE_MAX)
    title = f"{title} ({page.version})" if page.version else title
    html = with_losses(body.html, body.lost)
    hashed = content_hash(title, html, "html", "html")
    is_same = last is not None and last["content_hash"] == hashed
    written_at = last["updated_at"] if last is not None and is_same else facts.written_at
    labels = [label for one in body.labels[:LABELS_MAX] if (label := _line(one, LABEL_MAX))]
    category = body.category or page.category
    return {
        "source": facts.source,
        "tenant": settings.tenant,
        "page_id": facts.page_id,
        "version": facts.version if is_same else facts.version + 1,
        "space": settings.space or facts.source,
        "title": title,
        "url": facts.url,
        "status": "current",
        "updated_at": body.updated_at or written_at,
        "labels": labels,
        "ancestors": [],
        "ancestor_titles": [],
        "position": None,
        "readers": space_readers(settings.readers),
        "body": html,
        "body_format": "html",
        "anchor_flavor": "html",
        "content_hash": hashed,
        "original": None,
        "lang": body.lang,
        "source_file": _line(page.name, 4096),
        "slug": body.slug,
        "category": _line(category, LABEL_MAX) if category else None,
        "chapter": page.number,
    }


def placed(plan: SitePlan, page_ids: Mapping[str, str], rows: dict[str, Row]) -> None:
    """Write into each row (by id) the pages above it and its place below them, in the plan's reading order; those above
    without a row are left out. `page_ids`: by the pages' names."""
    positions: Counter[str] = Counter()
    for page in plan.pages:
        page_id = page_ids.get(page.name, "")
        if page_id not in rows:
            continue
        above = [one for name in page.parents if (one := page_ids.get(name, "")) in rows and one != page_id]
        parent = above[-1] if above else ""
        place = {
            "ancestors": above,
            "ancestor_titles": [rows[one]["title"] for one in above],
            "position": positions[parent],
        }
        positions[parent] += 1
        rows[page_id] = {**rows[page_id], **place}


def _line(text: str, longest: int) -> str:
    """Return a text on one line, no longer than `longest` characters."""
    return clean(_CONTROL.sub(" ", text[: 4 * longest]))[:longest].strip()


SIMILAR = 0.5
"""Share of the larger text that has to be the same; git's default."""
_PAIRS_MAX = 40_000
_PIECE = 64


def similarity(before: str, after: str) -> float:
    """Return the share of the larger of two texts that both have, as `git diff -M` measures it. Texts are cut into
    lines, those into pieces of 64 characters; order does not count (diffcore-delta.c)."""
    return _shared(_pieces(before), _pieces(after))


def renamed(gone: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return the old name of each new one with at least half of an old text; the best pairs first. With more than
    40,000 pairs none is compared, as git does with its own limit."""
    if not gone or not new or len(gone) * len(new) > _PAIRS_MAX:
        return {}
    old_pieces = {name: _pieces(text) for name, text in gone.items()}
    scores = [
        (-score, new_name, old_name)
        for new_name, text in new.items()
        for pieces in (_pieces(text),)
        for old_name, others in old_pieces.items()
        if (score := _shared(others, pieces)) >= SIMILAR
    ]
    pairs: dict[str, str] = {}
    taken: set[str] = set()
    for _, new_name, old_name in sorted(scores):
        if new_name not in pairs and old_name not in taken:
            pairs[new_name] = old_name
            taken.add(old_name)
    return pairs


def _pieces(text: str) -> Counter[str]:
    pieces: Counter[str] = Counter()
    for line in text.splitlines(keepends=True):
        for at in range(0, len(line), _PIECE):
            piece = line[at : at + _PIECE]
            pieces[piece] += len(piece)
    return pieces


def _shared(before: Counter[str], after: Counter[str]) -> float:
    largest = max(before.total(), after.total())
    if not largest or min(before.total(), after.total()) < SIMILAR * largest:
        return 0.0
    return (before & after).total() / largest


@dataclass(frozen=True)
class PageInputs:
    """The inputs of a page's text: a digest of it all, files that it includes, whether all pages count."""

    digest: str
    reads: tuple[str, ...]
    reads_site: bool

    def dump(self) -> list[Any]:
        """Return it as JSON has it."""
        return [self.digest, list(self.reads), self.reads_site]

    @classmethod
    def load(cls, value: Any) -> PageInputs | None:
        """Return the object written by `dump`; None for anything else."""
        match value:
            case [str(made_of), [*reads], bool(reads_site)]:
                return cls(made_of, tuple(map(str, reads)), reads_site)
        return None


@dataclass
class PageSync:
    """The outcome of the pages, by row id; `now` and `inputs_now`: the new memory of them, by name."""

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
        """The digest of everything that all pages depend on."""
        return digest(settings_digest(self.key, self.settings), plan_digest(self.tree, self.plan))

    @cached_property
    def facts_digest(self) -> str:
        """The digest of facts in pages that others may refer to."""
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
        """Return a page's body, else its outcome (`excluded`, `failed`) and the reason."""
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
        """Return the present inputs of a page's text, if its includes are the same; deleted files count, too."""
        included = [f"{name}:{self.tree.stamp(name) if has_file(self.tree, name) else ''}" for name in last.reads]
        site = self.facts_digest if last.reads_site else ""
        address = self.plan.address(page)
        made_of = digest(self.shas.get(page.name, ""), self.plan_digest, address, site, *included)
        return PageInputs(made_of, last.reads, last.reads_site)

    def _remember(self, page: SitePage, row_id: str, left_out: list[str] | None, inputs: PageInputs) -> None:
        """Record the next sync's facts on a page; one that cannot be opened has none."""
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
