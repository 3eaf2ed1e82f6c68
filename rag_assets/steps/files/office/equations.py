"""Equations of Office Open XML as a line of text.

Belongs here: fractions, powers, indexes, roots, brackets. Does not belong here: MathML.
"""

from __future__ import annotations

from rag_assets.steps.formats.element_tree import Element

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"


def equation_text(element: Element) -> str:
    """Return what an equation says, read from left to right: `(a+b)/c`, `x^2`, `√(n)`."""
    name = str(element.tag)
    if name == f"{M}t":
        return element.text or ""
    if name == f"{M}f":
        return f"{_part(element, 'num')}/{_part(element, 'den')}"
    if name == f"{M}rad":
        return f"{_part(element, 'deg', bare=True)}√{_part(element, 'e')}"
    if name == f"{M}d":
        return f"({', '.join(map(_inside, element.iterchildren(f'{M}e')))})"
    if name == f"{M}nary":
        sign = element.find(f"{M}naryPr/{M}chr")
        symbol = "∫" if sign is None else sign.get(f"{M}val", "")
        return f"{symbol}{_scripts(element)} {_part(element, 'e', bare=True)}"
    if name in (f"{M}sSup", f"{M}sSub", f"{M}sSubSup"):
        return f"{_part(element, 'e', bare=True)}{_scripts(element)}"
    return _inside(element)


def _inside(element: Element) -> str:
    return "".join(equation_text(child) for child in element if isinstance(child.tag, str))


def _part(element: Element, name: str, bare: bool = False) -> str:
    node = element.find(f"{M}{name}")
    text = "" if node is None else _inside(node)
    return text if bare or len(text) < 2 or text.isalnum() else f"({text})"


def _scripts(element: Element) -> str:
    below, above = _part(element, "sub"), _part(element, "sup")
    return (f"_{below}" if below else "") + (f"^{above}" if above else "")
