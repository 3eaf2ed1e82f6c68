"""The input and output of markup readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.records import FileError, FileText, PagesDone, decoded
from rag_assets.steps.formats.blocks import first_chars, noted
from rag_assets.steps.formats.macros import with_losses


def rst_text(content: bytes, composed: Composed, _pages_done: PagesDone | None = None) -> FileText:
    """Return a file of reStructuredText as HTML, without its includes. Raises FileError if it cannot be read."""
    from citelock_sites.rst.page import rst_page

    text, cut = first_chars(decoded(content), composed.budget)
    try:
        page = rst_page(text)
    except MarkupError as error:
        raise FileError(str(error)) from None
    body = with_losses(f"<main>{page.html}</main>", page.lost)
    return FileText(noted(body, cut) if cut else body, "html")


class MarkupError(Exception):
    """This page cannot be read; the message says why."""


class ReferenceTarget(NamedTuple):
    """The target of a reference: an address, and its title."""

    href: str
    title: str


class PageSurroundings(Protocol):
    """The files and pages around a page. A standalone page has none."""

    def file(self, name: str, above: str) -> tuple[str, str] | None:
        """Return name and text of a file that is included; None if it is not in the tree.

        Args:
            name: as the page names it.
            above: the name of the file that includes it.
        """
        ...

    def target(self, kind: str, name: str, page: str) -> ReferenceTarget | None:
        """Return the target of a reference; None if it is unknown.

        Args:
            kind: `ref`, `doc`, `term`, or the kind of an object such as `option`.
            name: as the page names it.
            page: name of the page's file.
        """
        ...


class Alone:
    """A page without files and pages around it."""

    def file(self, name: str, above: str) -> None:  # noqa: ARG002
        """See `PageSurroundings`."""
        return

    def target(self, kind: str, name: str, page: str) -> None:  # noqa: ARG002
        """See `PageSurroundings`."""
        return


@dataclass
class MarkupPage:
    """A page: its HTML, its title, what it says of itself, the files that it includes, and what was lost, by kind."""

    html: str = ""
    title: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
