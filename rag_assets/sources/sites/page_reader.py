"""Reads the pages of a site: small ones here, others in a process of its own, within limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from types import MappingProxyType, TracebackType
from typing import IO, Any

from rag_assets.parsing.worker import outcome, result_of
from rag_assets.sources.sites.site import (
    ExcludedPageError,
    Site,
    SiteBody,
    SitePage,
    SitePlan,
    SourceTree,
    has_file,
    open_site,
)
from rag_assets.steps.files.records import FileError
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


WORKER = module_command("rag_assets.sources.sites.page_reader")
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
