"""Marks that change what a text says: raised, lowered and struck characters, in every format."""

from __future__ import annotations

import re
from typing import Literal

from rag_assets.steps.formats.blocks import clean
from rag_assets.steps.formats.element_tree import AC, Element

Mark = Literal["", "raised", "lowered", "struck"]

STRUCK = "struck text"
"""What the ledger calls text that its page crosses out: no statement of the page, so no part of its text."""
_RAISED = str.maketrans("0123456789+-−–=()abcdefghijklmnoprstuvwxyz", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")
_LOWERED = str.maketrans("0123456789+-−–=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₋₌₍₎")
_FIGURES = re.compile(r"[0-9+\-−–=()*†‡§,; ]{0,40}[a-z]?[0-9+\-−–=()*†‡§,; ]{0,40}")
_ORDINAL = re.compile(r"(?:st|nd|rd|th|er|re|ère|[eè]me|nde?|tm|sm)", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,9}")
_TAGS: dict[str, Mark] = {"s": "struck", "del": "struck", "strike": "struck", "sup": "raised", "sub": "lowered"}
STRUCK_CLASSES = frozenset(
    ("line-through", "strikethrough", "strike-through", "strike", "text-decoration-line-through")
)
_SHIFTED = re.compile(r"vertical-align\s*:\s*(super|sub)\b", re.IGNORECASE)
_INLINE = frozenset({"span", "font", "a", "b", "i", "em", "strong", "small"})  # a cell's style aligns the whole cell
_CLASS_RULE = re.compile(r"\.([\w-]{1,100})\s{0,9}\{([^{}]{0,2000})\}")
_MARKING = re.compile(r"line-through|vertical-align\s{0,9}:\s{0,9}su\w{1,9}")
_ADF_MARKS: dict[str, Mark] = {"strike": "struck", "sup": "raised", "sub": "lowered"}


def shifted(text: str, mark: Mark, before: str = "") -> str:
    """Return raised or lowered text such that it is no part of the number or word before it: 10⁶, 24¹ months, CO₂.

    Words, phrases (only their leading number is raised) and the endings of ordinals stay as they are; text without
    Unicode characters for it follows `^` or `_`.
    """
    line = clean(text)
    after_number = before[-1:].isdigit()
    if mark == "lowered":
        is_index = after_number or (before[-1:].strip() and " " not in line)
        return "_" * (after_number and line[:1].isalpha()) + line.translate(_LOWERED) if is_index else line
    if _FIGURES.fullmatch(line):
        return line.translate(_RAISED)
    if " " in line:
        number = _NUMBER.match(line)
        return number[0].translate(_RAISED) + line[number.end() :] if number else line
    is_sign = not any(map(str.isalnum, line))  # ®, ™: no part of a number
    if is_sign or line[:1] == "[" or _ORDINAL.fullmatch(line) or (line[:1].isalpha() and not after_number):
        return line
    return f"^{line}" if line.replace(".", "").isalnum() else f"^({line})"


def mark_of(element: Element) -> Mark:
    """Return an element's mark on its content: by its name, style, class, or a mark of the new editor."""
    if (mark := _TAGS.get(element.tag)) is not None:
        return mark
    if element.tag == f"{AC}adf-node":
        for child in element.iterchildren(f"{AC}adf-mark"):
            kind = child.get("key") or child.get("type") or ""
            for name in (kind, *(part.text or "" for part in child.iter() if kind == "subsup")):
                if name in _ADF_MARKS:
                    return _ADF_MARKS[name]
        return ""
    style = element.get("style", "")
    if "line-through" in style or (element.get("class") and STRUCK_CLASSES.intersection(element.get("class").split())):
        return "struck"
    found = _SHIFTED.search(style) if style and element.tag in _INLINE else None
    return "" if found is None else "raised" if found[1].lower() == "super" else "lowered"


def style_classes(document: Element) -> None:
    """Write the marks of classes in the page's own style sheet (exports of Google Docs) into its elements."""
    styles = {
        name: found[0]
        for sheet in document.iter("style")
        for name, declared in _CLASS_RULE.findall(sheet.text or "")
        if (found := _MARKING.search(declared))
    }
    for element in document.iter() if styles else ():
        for name in {*(element.get("class") or "").split()} & styles.keys():
            element.set("style", f"{element.get('style', '')};{styles[name]}")
