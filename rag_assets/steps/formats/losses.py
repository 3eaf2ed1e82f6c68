"""Losses of a page: what its source shows and its text does not, for the ledger beside lost macros.

Belongs here: counting elements that have no words, notes of what a generator or markup could not carry over, which
travel in the body. Does not belong here: what each markup loses, rows of MACRO_LEDGER
(`sections.splitting`).
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Mapping
from html import escape

from rag_assets.steps.formats.element_tree import Element

FIGURE, DRAWING, EMBEDDED = "figure", "drawing", "embedded object"
_NOTE = "citelock-lost"
_NOTES_MAX, _KIND_MAX, _DIGITS_MAX = 200, 100, 6
_UNRESOLVED = ("include", "literalinclude", "reference", "csv-table by")
"""Begin the kinds whose target was not found; all other kinds are lost."""
_EMBEDDED = ("iframe", "object", "embed", "video", "audio")
_INLINE = frozenset({"a", "button", "span", "strong", "label", "summary", "h1", "h2", "h3", "h4", "h5", "h6"})


def with_losses(html: str, lost: Mapping[str, int]) -> str:
    """Return a body with a note of each kind of loss inside its end; `taken_losses` reads them."""
    notes = "".join(
        f'<data class="{_NOTE}" title="{escape(kind[:_KIND_MAX])}" value="{min(count, 10**_DIGITS_MAX - 1)}"></data>'
        for kind, count in sorted(lost.items())[:_NOTES_MAX]
        if count > 0
    )
    end = "</main>" if html.endswith("</main>") else ""
    return f"{html.removesuffix(end)}{notes}{end}" if notes else html


def taken_losses(root: Element) -> Counter[tuple[str, str]]:
    """Take the notes out of a tree and return them by (kind, outcome)."""
    ledger: Counter[tuple[str, str]] = Counter()
    for note in list(root.iter("data")):
        kind, count = note.get("title") or "", note.get("value") or ""
        if note.get("class") != _NOTE:
            continue
        if kind and count.isascii() and count.isdigit() and len(count) <= _DIGITS_MAX and len(ledger) < _NOTES_MAX:
            outcome = "unresolved" if kind.startswith(_UNRESOLVED) else "lost"
            ledger[kind[:_KIND_MAX], outcome] += int(count)
        note.drop_tree()
    return ledger


def wordless_elements(root: Element) -> Counter[tuple[str, str]]:
    """Count the elements of a tree that show something and say nothing: pictures without an alternative text, drawings,
    embedded objects. Icons in a line of text are none."""
    found = {
        FIGURE: sum(1 for picture in root.iter("img", "image") if not _words(picture)),
        DRAWING: sum(1 for drawing in root.iter("svg", "canvas") if not _is_icon(drawing)),
        EMBEDDED: sum(1 for element in root.iter(*_EMBEDDED) if element.getparent().tag not in _EMBEDDED),
    }
    return Counter({(kind, "lost"): count for kind, count in found.items() if count})


def _words(picture: Element) -> str:
    """Return what is said of a picture; the name of its file says nothing."""
    words = (picture.get("alt") or "").strip()
    return "" if words == posixpath.basename(picture.get("src") or "") else words


def _is_icon(drawing: Element) -> bool:
    above = drawing.getparent()
    is_hidden = drawing.get("aria-hidden") == "true" or drawing.get("role") == "presentation"
    return is_hidden or (above is not None and above.tag in _INLINE)
