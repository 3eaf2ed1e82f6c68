"""Read bodies and files within the limits of the configuration.

Belongs here: what is parsed in this process and what in one of its own. Small text is parsed here: the pure functions
take time and memory in proportion to it, at most some seconds for `HERE_MAX` bytes of the worst. All else, and every
PDF, goes to the child. Of 2,000 pages of a real wiki 14 do, and all take 1.1 times the processor time of parsing them
here, the child's start included; if all went to the child, they would take 1.6 times as much.
Does not belong here: the formats (`rag_assets.steps`), the process (`child`).
"""

from __future__ import annotations

from importlib.util import find_spec
from types import TracebackType
from typing import Any

from rag_assets.parsing.child import Child, ParseError
from rag_assets.parsing.limits import Limits
from rag_assets.parsing.wire import Frame, WireError, content_of_json
from rag_assets.steps.formats.attachment_text import AttachmentError, AttachmentText, attachment_kind, attachment_text
from rag_assets.steps.formats.blocks import Content
from rag_assets.steps.formats.budget import Budget
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.formats.exported_page import ExportedIndex, ExportedPage, exported_index, exported_page
from rag_assets.steps.sections.page_properties import Properties
from rag_assets.steps.sections.reading import DirectReader
from rag_serving.config.documents import Documents

HERE_MAX = 128 * 1024
"""Characters of a body, bytes of a file, that are parsed in this process."""


class LimitedReader:
    """Reads bodies (`BodyReader`) and attached files; what takes too much is an error of that one document."""

    def __init__(self, documents: Documents, child: Child | None = None) -> None:
        self._limits = Limits(documents.max_seconds, documents.max_memory_mb)
        self._budget = Budget(
            documents.max_text_chars, documents.max_headings, documents.max_blocks, documents.max_cells
        )
        self._direct = DirectReader(self._budget)
        self._child = child or Child(self._limits)

    def __enter__(self) -> LimitedReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.close()

    def content(self, body: str, body_format: str, lists: bool = False) -> Content:
        """See `BodyReader`."""
        if len(body) <= HERE_MAX:
            return self._direct.content(body, body_format, lists)
        content = self._content({"do": "content", "format": body_format, "lists": lists}, body)
        if content is None:
            raise PageError("its parser failed: it wrote something else than an answer")
        return content

    def excerpt(self, body: str, name: str) -> Content | None:
        """See `BodyReader`."""
        if len(body) <= HERE_MAX:
            return self._direct.excerpt(body, name)
        return self._content({"do": "excerpt", "name": name}, body)

    def properties(self, body: str) -> list[Properties]:
        """See `BodyReader`."""
        if len(body) <= HERE_MAX:
            return self._direct.properties(body)
        return [Properties(str(name), dict(values)) for name, values in self._told("properties", _bytes(body))]

    def attachment(self, name: str, content: bytes) -> AttachmentText:
        """Return the text of a file; see `attachment_text`.

        Raises:
            AttachmentError: it cannot be read, or takes too much.
            ImportError: it is a PDF, and pypdfium2 is not installed.
        """
        if len(content) <= HERE_MAX and attachment_kind(name) != "pdf":
            return attachment_text(name, content, self._budget)
        if attachment_kind(name) == "pdf" and find_spec("pypdfium2") is None:
            raise ImportError(name="pypdfium2")
        try:
            body, body_format = self._asked({"do": "attachment", "name": name}, content)
        except ParseError as error:
            raise AttachmentError(str(error)) from None
        return AttachmentText(body, body_format)

    def exported_page(self, content: bytes) -> ExportedPage:
        """Return what a page's file of an HTML export tells. Raises PageError where it cannot be read."""
        if len(content) <= HERE_MAX:
            return exported_page(content)
        title, crumbs, changed, body, links = self._told("exported_page", content)
        return ExportedPage(title, [*map(tuple, crumbs)], changed, body, [*map(tuple, links)])

    def exported_index(self, content: bytes) -> ExportedIndex:
        """Return what the index of an HTML export tells. Raises PageError where it cannot be read."""
        return (
            exported_index(content)
            if len(content) <= HERE_MAX
            else ExportedIndex(*self._told("exported_index", content))
        )

    def is_past(self, reason: str) -> bool:
        """Return whether a reason names a limit that is another one now, so that the document is worth another try."""
        now = [self._limits.too_slow(), self._limits.too_large(), *map(self._budget.reason, Budget._fields)]
        return "(documents.max_" in reason and not any(one in reason for one in now)

    def _told(self, what: str, content: bytes) -> Any:
        try:
            return self._asked({"do": what}, content)
        except ParseError as error:
            raise PageError(str(error)) from None

    def _content(self, facts: dict[str, Any], body: str) -> Content | None:
        try:
            return content_of_json(self._asked(facts, _bytes(body)))
        except (ParseError, WireError) as error:
            raise PageError(str(error)) from None

    def _asked(self, facts: dict[str, Any], content: bytes) -> Any:
        answer = self._child.ask(Frame({**facts, "limits": self._limits, "budget": self._budget}, content)).facts
        if answer.get("memory"):
            raise ParseError(self._limits.too_large())
        if "result" not in answer:
            raise ParseError(str(answer.get("reason", "its parser failed")))
        return answer["result"]


def _bytes(body: str) -> bytes:
    return body.encode("utf-8", "surrogatepass")
