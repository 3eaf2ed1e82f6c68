"""Reads the pages of a site: small ones here, others in a process of its own, within limits.

Belongs here: what is read where, the files that the process is given. Does not belong here: the rules of a generator,
the process (`rag_serving.isolation`), what it does (`worker`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from types import MappingProxyType, TracebackType
from typing import Any

from rag_assets.parsing.worker import result_of
from rag_assets.sources.sites.site import ExcludedPageError, Site, SiteBody, SitePage, SitePlan, SourceTree
from rag_assets.steps.files.records import FileError
from rag_serving.isolation.child import Child, Frame, Limits, ParseError, module_command

WORKER = module_command("rag_assets.sources.sites.worker")
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
        """Return the body of a page.

        Raises:
            ExcludedPageError: it is left out on purpose.
            FileError: it cannot be read, or takes too much.
        """
        try:
            return site.body(_SmallTree(tree, _HERE_MAX_OF.get(plan.generator, HERE_MAX)), plan, page)
        except _LargePageError:
            return self._read_elsewhere(tree, plan, page)

    def _read_elsewhere(self, tree: SourceTree, plan: SitePlan, page: SitePage) -> SiteBody:
        """Ask the process, giving it one more file for each that it says the page includes."""
        if self._told is None or self._told[0] is not plan:
            self._told = (plan, plan_to_json(plan))
        files: dict[str, bytes] = {}
        unreadable: dict[str, str] = {}
        wanted: Sequence[str] = [page.name]
        for _ in range(_ROUNDS_MAX):
            _take(tree, wanted, files, unreadable)
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
                return _body_of(result)
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


def _body_of(told: Mapping[str, Any]) -> SiteBody:
    """Return the body that the process answered.

    Raises:
        ExcludedPageError: the page is left out.
        FileError: it wrote something else.
    """
    if "excluded" in told:
        raise ExcludedPageError(str(told["excluded"]))
    try:
        fields = {**told["body"]}
        moment = fields["updated_at"]
        fields |= {"labels": tuple(fields["labels"]), "read": tuple(fields["read"])}
        return SiteBody(**{**fields, "updated_at": datetime.fromisoformat(moment) if moment else None})
    except (KeyError, TypeError, ValueError):
        raise FileError("its parser failed: it wrote something else than an answer") from None


def _take(tree: SourceTree, wanted: Sequence[str], files: dict[str, bytes], unreadable: dict[str, str]) -> None:
    """Add files to those that the process is given. Raises FileError if they are too large together."""
    for name in wanted:
        try:
            files[name] = tree.read(name)
        except FileError as error:
            unreadable[name] = str(error)
        except KeyError:
            unreadable[name] = "it is not there"
    if sum(map(len, files.values())) > _FILES_MAX:
        raise FileError(f"it and what it includes are larger than {_FILES_MAX:,} bytes")


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
