"""Inline markup of AsciiDoc: quotes, attributes, replacements, macros, in Asciidoctor's order.

Belongs here: a text as HTML. Does not belong here: blocks, where references lead (`PageSurroundings`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape, unescape

from citelock_sites.asciidoc.context import AsciiContext
from rag_assets.steps.formats.text_marks import STRUCK_CLASSES

_IN = r"(?:\S|\S.{0,500}?\S)"
_ROLE = r"(?:\[([^\[\]]{1,200})\])?"
_QUOTES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("strong", re.compile(rf"\\?{_ROLE}\*\*(.{{1,2000}}?)\*\*", re.S)),
    ("strong", re.compile(rf"(?<![\w&;:}}\\]){_ROLE}\*({_IN})\*(?!\w)", re.S)),
    ("“”", re.compile(rf"(?<![\w;:}}\\]){_ROLE}\"`({_IN})`\"(?!\w)", re.S)),
    ("‘’", re.compile(rf"(?<![\w;:`}}\\]){_ROLE}'`({_IN})`'(?!\w)", re.S)),
    ("code", re.compile(rf"\\?{_ROLE}``(.{{1,2000}}?)``", re.S)),
    ("code", re.compile(rf"(?<![\w&;:\"'`}}\\]){_ROLE}`({_IN})`(?![\w\"'`])", re.S)),
    ("em", re.compile(rf"\\?{_ROLE}__(.{{1,2000}}?)__", re.S)),
    ("em", re.compile(rf"(?<![\w&;:}}\\]){_ROLE}_({_IN})_(?!\w)", re.S)),
    ("mark", re.compile(rf"\\?{_ROLE}##(.{{1,2000}}?)##", re.S)),
    ("mark", re.compile(rf"(?<![\w&;:}}\\]){_ROLE}#({_IN})#(?!\w)", re.S)),
    ("sup", re.compile(rf"\\?{_ROLE}\^(\S{{1,500}}?)\^")),
    ("sub", re.compile(rf"\\?{_ROLE}~(\S{{1,500}}?)~")),
)
_REPLACED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\\?\(C\)"), "&#169;"),
    (re.compile(r"\\?\(R\)"), "&#174;"),
    (re.compile(r"\\?\(TM\)"), "&#8482;"),
    (re.compile(r"(?:^| |(?<=\n))--(?= |\n|$)[ ]?", re.M), "&#8201;&#8212;&#8201;"),
    (re.compile(r"(?<=\w)--(?=\w)"), "&#8212;&#8203;"),
    (re.compile(r"\\?\.\.\."), "&#8230;&#8203;"),
    (re.compile(r"\\?`'"), "&#8217;"),
    (re.compile(r"(?<=[^\W_])\\?'(?=[^\W\d_])"), "&#8217;"),
    (re.compile(r"\\?-&gt;"), "&#8594;"),
    (re.compile(r"\\?=&gt;"), "&#8658;"),
    (re.compile(r"\\?&lt;-"), "&#8592;"),
    (re.compile(r"\\?&lt;="), "&#8656;"),
    (re.compile(r"\\?&amp;((?:[a-zA-Z][a-zA-Z]{1,30}\d{0,2}|#\d\d\d{0,4}|#x[\da-fA-F][\da-fA-F]{1,4});)"), r"&\1"),
)
_PASSED = re.compile(
    r"\\?(?:\+\+\+(.{0,2000}?)\+\+\+|(?<![\w\\+])\+\+(.{1,2000}?)\+\+|pass:([a-z,]{0,20})\[(.{0,2000}?)(?<!\\)\]"
    r"|(?<![\w;:\\])`\+(.{1,2000}?)\+`(?!\w)|(?<![\w;:\\+])\+(\S|\S.{0,2000}?\S)\+(?!\w))",
    re.S,
)
_STEM = re.compile(r"\\?(?:stem|latexmath|asciimath):[a-z,]{0,20}\[((?:[^\[\]\\]|\\.){0,2000})\]", re.S)
_TEXT = r"\[((?:[^\[\]\\]|\\.|\[[^\[\]]{0,500}\]){0,2000})\]"
_MACROS = re.compile(
    rf"\\?(?:(image|icon|kbd|btn|menu|xref|link|mailto|footnote|footnoteref|anchor|indexterm2?|include)"
    rf":(?!:)([^\s\[\]:][^\s\[\]]{{0,1000}})?{_TEXT}"
    rf"|&lt;&lt;([^&<>]{{1,500}}?)(?:,\s{{0,9}}([^<>]{{0,1000}}?))?&gt;&gt;"
    rf"|\[\[([\w:.-]{{1,200}})(?:,[^\]]{{0,500}})?\]\]"
    rf"|((?:https?|ftp|irc)://[^\s\[\]<>]{{1,1000}}){_TEXT}"
    rf"|&lt;((?:https?|ftp)://[^\s<>]{{1,1000}}?)&gt;"
    rf"|(?<![\w>:/=\"'])((?:https?|ftp)://[^\s\[\]<>]{{1,1000}}[^\s\[\]<>.,;:!?)])"
    rf"|\(\(\(?([^()]{{1,500}})\)?\)\))"
)
_BREAK = re.compile(r"[ ]\+(?:\n|$)")
_KEPT = re.compile("\x02(\\d+)\x03")


class InlineMarkup:
    """Reads inline markup of one page."""

    def __init__(self, context: AsciiContext) -> None:
        self._context = context
        self._kept: list[str] = []

    def html(self, text: str) -> str:
        """Return a text as HTML."""
        if text.isalnum():
            return text
        first = len(self._kept)
        text = re.sub("[\x02-\x05]", "", text)
        text = _PASSED.sub(self._pass, text) if "+" in text or "pass:" in text else text
        text = _STEM.sub(lambda found: self._keep(f"<code>{escape(found[1], quote=False)}</code>"), text)
        text = escape(text, quote=False)
        for tag, pattern in _QUOTES:
            text = pattern.sub(_quoted(tag), text)
        text = self._context.replaced(text)
        for pattern, said in _REPLACED:
            text = pattern.sub(_unless_escaped(said), text)
        text = self._macros(text)
        text = _BREAK.sub("<br/>\n", text)
        while "\x02" in text:
            text = _KEPT.sub(lambda found: self._kept[int(found[1])], text)
        del self._kept[first:]
        return text

    def _macros(self, text: str) -> str:
        return _MACROS.sub(self._macro, text) if re.search(r"[:\[]|&lt;|\(\(", text) else text

    def _keep(self, html: str) -> str:
        self._kept.append(html)
        return f"\x02{len(self._kept) - 1}\x03"

    def _pass(self, found: re.Match[str]) -> str:
        if found[0][0] == "\\":
            return found[0][1:]
        raw, double, subs, passed, mono, single = found.groups()
        if raw is not None:
            return self._keep(_words_of_html(raw))
        if passed is not None:
            if subs in ("q", "n", "quotes", "normal"):
                return self._keep(InlineMarkup(self._context).html(passed))
            plain = escape(passed, quote=False) if subs else _words_of_html(passed)
            return self._keep(plain)
        if mono is not None:
            return self._keep(f"<code>{escape(mono, quote=False)}</code>")
        return self._keep(escape(double if double is not None else single, quote=False))

    def _macro(self, found: re.Match[str]) -> str:
        if found[0][0] == "\\":
            return found[0][1:]
        name, target, inner, internal, title, anchor, address, address_text, bare, plain, term = found.groups()
        if name:
            return self._named(name, target or "", (inner or "").replace("\\]", "]"))
        if internal:
            return self._reference(internal, title or "")
        if anchor:
            self._context.ids.setdefault(anchor, "")
            return f'<a id="{anchor}"></a>'
        if address:
            text = _link_text(address_text)
            return f'<a href="{_quoted_value(address)}">{text or address}</a>'
        if bare or plain:
            return f'<a href="{_quoted_value(bare or plain)}">{bare or plain}</a>'
        return "" if found[0].startswith("(((") else term

    def _named(self, name: str, target: str, inner: str) -> str:
        match name:
            case "xref":
                return self._reference(target, _link_text(inner))
            case "link" | "mailto":
                href = f"mailto:{target}" if name == "mailto" else target
                return f'<a href="{_quoted_value(href)}">{_link_text(inner) or target}</a>'
            case "footnote" | "footnoteref":
                return self._footnote(target, inner)
            case "image" | "icon":
                return self.image(target, inner) if name == "image" else ""
            case "kbd":
                return f"<code>{inner or target}</code>"
            case "btn":
                return f"<strong>{inner}</strong>"
            case "menu":
                parts = [target, *(part.strip() for part in re.split(r"&gt;|,", inner) if part.strip())]
                return " \N{TRIANGULAR BULLET} ".join(parts)
            case "anchor":
                return f'<a id="{_quoted_value(target)}"></a>'
            case "indexterm2":
                return inner
            case _:
                return ""

    def image(self, target: str, inner: str) -> str:
        """Return an image with its words."""
        first = re.match(r"\s*(?:alt=)?(?:\"([^\"]*)\"|([^,=]*))(?:,|$)", inner)
        alt = ((first[1] or first[2] or "") if first else "").strip()
        if found := re.search(r"\balt=(?:\"([^\"]*)\"|([^,]*))", inner):
            alt = found[1] or found[2] or ""
        return f'<img alt="{_quoted_value(alt)}" src="{_quoted_value(target)}"/>'

    def _footnote(self, target: str, inner: str) -> str:
        notes = self._context.footnotes
        if target and not inner:
            number = next((at for at, (name, _) in enumerate(notes, start=1) if name == target), None)
            return f"[{number}]" if number else ""
        notes.append((target, inner))
        return f'<a href="#_footnotedef_{len(notes)}">[{len(notes)}]</a>'

    def _reference(self, target: str, title: str) -> str:
        """Return a link to an id of the page, or to another page."""
        target = unescape(target).strip()
        path, mark, name = target.partition("#")
        if not mark and not path.endswith((".adoc", ".asciidoc", ".asc", ".ad")):
            path, name = "", target
        if not path:
            shown = title or f"\x04{name}\x05"
            return f'<a href="#\x04={name}\x05">{shown}</a>'
        found = self._context.around.target("doc", f"{path}#{name}" if name else path, self._context.name)
        if found is None:
            self._context.lost["reference"] += 1
            return title or escape(path)
        return f'<a href="{_quoted_value(found.href)}">{title or escape(found.title or path)}</a>'


def _words_of_html(raw: str) -> str:
    """Return markup that an author passed through, without what could be more than text."""
    return re.sub(r"<[^<>]{0,500}>", "", raw).replace("<", "&lt;")


def _quoted(tag: str) -> Callable[[re.Match[str]], str]:
    def markup(found: re.Match[str]) -> str:
        if found[0][0] == "\\":
            return found[0][1:]
        inner = found[found.lastindex or 0]
        role = found[1] if (found.lastindex or 0) > 1 else None
        anchor = ""
        if role and role.startswith("#"):
            anchor = f'<a id="{_quoted_value(role[1:].partition(".")[0])}"></a>'
        if tag in ("“”", "‘’"):
            opening, closing = ("&#8220;", "&#8221;") if tag == "“”" else ("&#8216;", "&#8217;")
            return f"{opening}{inner}{closing}"
        struck = STRUCK_CLASSES.intersection((role or "").split("."))
        return f"{anchor}<del>{inner}</del>" if struck else f"{anchor}<{tag}>{inner}</{tag}>"

    return markup


def _unless_escaped(said: str) -> Callable[[re.Match[str]], str]:
    return lambda found: found[0][1:] if found[0].startswith("\\") else found.expand(said)


def _link_text(inner: str) -> str:
    """Return the text of a link without its attributes."""
    if found := re.match(r"\s*\"([^\"]*)\"\s*(?:,|$)", inner):
        return found[1]
    text = re.split(r",\s*\w+=", inner)[0] if "=" in inner else inner
    return "" if re.match(r"\w+=", text.strip()) else text.strip().removesuffix("^")


def _quoted_value(text: str) -> str:
    return escape(unescape(text))
