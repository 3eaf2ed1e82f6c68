"""The process that reads large pages of sites: `python -m rag_assets.sources.sites.worker`, one after the other.

Belongs here: a page from the files that a request brings. Does not belong here: limits and the loop
(`rag_serving.isolation.serving`), what is read here (`page_reader`). It opens no file and no socket.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, Any

from rag_assets.parsing.worker import outcome
from rag_assets.sources.sites.detect import open_site
from rag_assets.sources.sites.page_reader import body_to_json, plan_of_json
from rag_assets.sources.sites.site import ExcludedPageError, has_file
from rag_assets.steps.files.records import FileError
from rag_serving.isolation.child import Frame, Limits
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
        """See `Tree`."""
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
    """Return a page's body, why it is left out, or the files that it needs."""
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


if __name__ == "__main__":
    run(_answer, ("lxml.html", "rag_assets.sources.sites.mdbook"))
