"""Reading a body: from its format to blocks within a budget.

Belongs here: which function reads which format, and what other steps ask of a body.
Does not belong here: the formats, or a process of its own for large bodies (`rag_assets.parsing`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from rag_assets.steps.formats.block_json import blocks_content
from rag_assets.steps.formats.blocks import Content
from rag_assets.steps.formats.budget import BUDGET, Budget, within, without_note
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.formats.html import html_content
from rag_assets.steps.formats.markdown import markdown_content
from rag_assets.steps.formats.plain import plain_content
from rag_assets.steps.formats.storage_elements import storage_content, storage_excerpt
from rag_assets.steps.sections.page_properties import Properties, page_properties

_READERS: Mapping[str, Callable[[str], Content]] = MappingProxyType(
    {
        "storage": storage_content,
        "html": html_content,
        "markdown": markdown_content,
        "text": plain_content,
        "blocks": blocks_content,
    }
)


class BodyReader(Protocol):
    """A reader of bodies. Each method raises PageError where the body cannot be read, or takes too much."""

    def content(self, body: str, body_format: str, lists: bool = False) -> Content:
        """Return the blocks of a body; with `lists` the places of lists of pages, too."""
        ...

    def excerpt(self, body: str, name: str) -> Content | None:
        """Return the blocks of the excerpt of this name in a body of storage format; None where there is none."""
        ...

    def properties(self, body: str) -> list[Properties]:
        """Return the page properties of a body of storage format."""
        ...


class DirectReader:
    """Reads bodies here and now, within a budget of text; it bounds neither time nor memory."""

    def __init__(self, budget: Budget = BUDGET) -> None:
        self._budget = budget

    def content(self, body: str, body_format: str, lists: bool = False) -> Content:
        """See `BodyReader`."""
        read = _READERS.get(body_format)
        if read is None:
            raise PageError(f"body format {body_format!r} is not known; known are {', '.join(sorted(_READERS))}")
        text, cut = without_note(body)
        content = storage_content(text, lists) if body_format == "storage" else read(text)
        content = within(content, self._budget)
        return content if content.cut or cut is None else content._replace(cut=cut)

    def excerpt(self, body: str, name: str) -> Content | None:
        """See `BodyReader`."""
        excerpt = storage_excerpt(body, name)
        return None if excerpt is None else within(excerpt, self._budget)

    def properties(self, body: str) -> list[Properties]:
        """See `BodyReader`."""
        return page_properties(body)
