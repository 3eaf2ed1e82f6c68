"""Lines: the text of one paragraph while it is gathered.

Belongs here: text, links and names of one paragraph. Does not belong here: which elements are text.
"""

from __future__ import annotations

from rag_assets.steps.formats.blocks import BREAK, Link, clean, paragraphs
from rag_assets.steps.formats.text_marks import Mark, shifted


class Line:
    """Gathers the text of one paragraph."""

    def __init__(self, text: str = "") -> None:
        self._parts: list[str] = [text] if text else []
        self.links: list[Link] = []
        self.linked = 0  # characters of the text that are links
        self.names: list[str] = []  # bookmarks in it

    def write(self, text: str, mark: Mark = "") -> None:
        """Append text; white space collapses later."""
        if mark and text.strip():
            around = " " * text[0].isspace(), " " * text[-1].isspace()
            text = shifted(text, mark, self._parts[-1] if self._parts else "").join(around)
        self._parts.append(text)

    def begin(self, text: str) -> None:
        """Put text in front."""
        self._parts.insert(0, text)

    def line_break(self) -> None:
        """Append a forced line break."""
        self._parts.append(BREAK)

    def mark(self) -> int:
        """Return the place that is reached, for `link`."""
        return len(self._parts)

    def link(self, start: int, target: str) -> None:
        """Make a link of what was written since a mark: to a place of the document (`#name`) or to an address."""
        text = clean("".join(self._parts[start:]).replace(BREAK, " "))
        if not text or not target:
            return
        anchor = target.startswith("#")
        self.links.append(Link(text, "anchor", anchor=target[1:]) if anchor else Link(text, "url", target))
        self.linked += len(text)

    def paragraphs(self) -> list[str]:
        """Return the cleaned paragraphs: a break is a new line, two are a new paragraph."""
        return paragraphs("".join(self._parts))

    def verbatim(self) -> str:
        """Return the text to the letter."""
        return "".join(self._parts).replace(BREAK, "\n")

    def mend(self) -> None:
        """Join halves of characters that were written one after the other (UTF-16)."""
        text = "".join(self._parts)
        if any("\ud800" <= each <= "\udfff" for each in text):
            self._parts = [text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")]

    def empty(self) -> bool:
        """Return whether there is no text."""
        return not any(part.strip() for part in self._parts)
