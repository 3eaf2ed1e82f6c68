"""Blocks of AsciiDoc: sections, delimited blocks, paragraphs, macros.

Belongs here: which lines make a block, and its HTML. Does not belong here: lists (`lists`), tables (`tables`), inline
markup, what lines there are (`preprocessing`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape

from citelock_sites.asciidoc.context import AsciiContext
from citelock_sites.asciidoc.inline import InlineMarkup
from citelock_sites.asciidoc.preprocessing import ATTRIBUTE
from citelock_sites.markup import MarkupError
from rag_assets.steps.formats.text_marks import STRUCK_CLASSES

SECTION = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*)$")
_ATTRIBUTES = re.compile(r"\[(?:\s*|[\w.#\",%{].*)\]$")
_ANCHOR = re.compile(r"\[\[(?:([\w:][\w:.-]*)(?:,\s*(.+))?)?\]\]$")
_TITLE = re.compile(r"\.(\.?[^ \t.].*)$")
_DELIMITER = re.compile(r"(-{4,}|\.{4,}|={4,}|\*{4,}|_{4,}|\+{4,}|/{4,}|--|```[\w+#.-]*|[|,:!]={3,})$")
_MACRO = re.compile(r"(image|video|audio|toc|kroki|plantuml|mermaid|[a-z]\w{1,20})::([^\s\[]*)\[(.*)\]$")
_ADMONITION = re.compile(r"(NOTE|TIP|IMPORTANT|WARNING|CAUTION):\s+(.*)$", re.S)
_NOTES = ("NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION")
_LISTED = re.compile(r"[ \t]*(?:\*{1,6}|-|\.{1,6}|\d{1,5}\.|[a-zA-Z]\.|[ivxIVX]{1,6}\)|<(?:\d{1,3}|\.)>)[ \t]+\S")
_TERM = re.compile(r"[ \t]*(?!//)(\S.{0,500}?)(:{2,4}|;;)(?:[ \t]+(\S.*))?$")
_CALLOUT = re.compile(r"<!--(\d{1,3}|\.)-->|<(\d{1,3}|\.)>(?=(?: ?<(?:\d{1,3}|\.)>){0,9} ?$)", re.M)
_DRAWN = frozenset({"plantuml", "mermaid", "graphviz", "ditaa", "blockdiag", "vega", "a2s", "nomnoml", "d2", "kroki"})
_DEPTH_MAX = 40


@dataclass
class BlockAttributes:
    """What the lines above a block say of it."""

    positional: list[str] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)
    title: str = ""
    id: str = ""
    label: str = ""  # of its id, for references
    options: set[str] = field(default_factory=set)
    is_struck: bool = False

    @property
    def style(self) -> str:
        """Return the first positional value."""
        return self.positional[0] if self.positional else ""


class Blocks:
    """Writes the blocks of one page."""

    def __init__(self, context: AsciiContext) -> None:
        self.context = context
        self.inline = InlineMarkup(context)
        self._depth = 0
        self._callouts = 0

    def html(self, lines: list[str], sections: bool = True) -> str:
        """Return lines as HTML.

        Raises:
            MarkupError: blocks are nested too deep.
        """
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise MarkupError(f"its blocks are nested more than {_DEPTH_MAX} deep")
        parts: list[str] = []
        at = 0
        while at < len(lines):
            at, html = self._block(lines, at, sections)
            parts.append(html)
        self._depth -= 1
        return "".join(parts)

    def _block(self, lines: list[str], at: int, sections: bool) -> tuple[int, str]:
        """Return where the next block begins, and this one."""
        about = BlockAttributes()
        while at < len(lines):
            line = lines[at]
            if line.strip() and not self._said(line, about):
                break
            if line.startswith("////"):
                at = _closing(lines, at)
            at += 1
        if at >= len(lines):
            return at, ""
        end, html = self._shown(lines, at, sections, about)
        return end, f"<del>{html}</del>" if about.is_struck else html

    def _shown(self, lines: list[str], at: int, sections: bool, about: BlockAttributes) -> tuple[int, str]:
        line = lines[at]
        if (section := SECTION.match(line)) and sections:
            return at + 1, self._section(len(section[1]), section[2], about)
        if delimiter := _DELIMITER.match(line):
            return self._delimited(lines, at, delimiter[1], about)
        if re.fullmatch(r"'{3,}|<<<+|-{3}|\*{3}", line):
            return at + 1, ""
        if (macro := _MACRO.match(line)) and not _TERM.match(line):
            return at + 1, self._macro(macro, about)
        if _LISTED.match(line) or (_TERM.match(line) and line.strip() != "::"):
            from citelock_sites.asciidoc.lists import list_html

            return list_html(self, lines, at, about)
        return self._paragraph(lines, at, about)

    def _said(self, line: str, about: BlockAttributes) -> bool:
        """Take what a line says of the block below it; return whether it is such a line."""
        if line.startswith("//") and not line.startswith("///"):
            return True
        if line.startswith("////") and not line.strip("/ "):
            return True
        if entry := ATTRIBUTE.match(line):
            self.context.assign(entry[1], entry[2] or "")
            return True
        if anchor := _ANCHOR.match(line):
            about.id, about.label = anchor[1] or "", anchor[2] or ""
            return True
        if _ATTRIBUTES.match(line):
            attribute_line(self.context.replaced(line[1:-1]), about)
            return True
        if (title := _TITLE.match(line)) and not _LISTED.match(line) and not _DELIMITER.match(line):
            about.title = title[1]
            return True
        return False

    def _section(self, level: int, title: str, about: BlockAttributes) -> str:
        title = title.rstrip().removesuffix(f" {'=' * level}").rstrip()
        trailing = re.search(r"\[\[([\w:.-]{1,200})\]\]$", title)
        if trailing:
            about.id, title = about.id or trailing[1], title[: trailing.start()].rstrip()
        html = self.inline.html(title)
        name = about.id
        if not name and "sectids" in self.context.attributes and about.style != "no-ids":
            name = self.context.section_id(html)
        if name:
            self.context.ids[name] = about.label or html
        offset = self.context.attributes.get("leveloffset", "0")
        level += int(offset) if re.fullmatch(r"[+-]?\d", offset) else 0
        mark = f' id="{escape(name)}"' if name else ""
        return f"<h{min(max(level, 1), 6)}{mark}>{html}</h{min(max(level, 1), 6)}>"

    def _delimited(self, lines: list[str], at: int, mark: str, about: BlockAttributes) -> tuple[int, str]:
        end = _closing(lines, at)
        inner = lines[at + 1 : end]
        kind = mark[0] if mark != "--" else "open"
        if kind in "|,:!" and mark[1] == "=":
            from citelock_sites.asciidoc.tables import table_html

            return end + 1, self.titled(about, table_html(self, inner, mark[0], about))
        style = about.style
        if kind in "-.`" or (style in ("source", "listing", "literal") and kind == "open"):
            if kind == "`":
                about.positional = ["source", mark[3:]]
            return end + 1, self.titled(about, self.code(inner, about))
        if kind == "+" or style in ("stem", "latexmath", "asciimath"):
            return end + 1, self.titled(about, self._passed(inner, style))
        if style in ("comment",):
            return end + 1, ""
        return end + 1, self._compound(kind, inner, about)

    def _compound(self, kind: str, inner: list[str], about: BlockAttributes) -> str:
        style = about.style
        if style.upper() in _NOTES:
            return self.noted(style, self.html(inner, False), about)
        if style in ("verse",):
            return f"<blockquote>{self.titled(about, self._verse(inner))}{self._by(about)}</blockquote>"
        body = self.titled(about, self.html(inner, False))
        if kind == "_" or style == "quote":
            return f"<blockquote>{body}{self._by(about)}</blockquote>"
        return f"<blockquote>{body}</blockquote>" if kind == "*" or style == "sidebar" else body

    def _by(self, about: BlockAttributes) -> str:
        words = ", ".join(one for one in about.positional[1:3] if one)
        return f"<p>{self.inline.html(words)}</p>" if words else ""

    def _verse(self, lines: list[str]) -> str:
        return f"<p>{'<br/>'.join(self.inline.html(line) for line in lines)}</p>"

    def _passed(self, lines: list[str], style: str) -> str:
        text = "\n".join(lines)
        if style:
            return f'<pre><code class="language-latex">{escape(text, quote=False)}\n</code></pre>'
        self.context.lost["passthrough"] += 1
        return ""

    def code(self, lines: list[str], about: BlockAttributes) -> str:
        """Return lines as code, with the numbers of its callouts."""
        style = about.style
        language = about.named.get("language") or (about.positional[1] if len(about.positional) > 1 else "")
        if style.startswith("source,"):
            language = style.partition(",")[2]
        if not language and style == "source":
            language = self.context.attributes.get("source-language", "")
        if style in _DRAWN:
            self.context.lost[f"figure {style}"] += 1
            language = style
        text = "\n".join(lines)
        if "attributes" in about.named.get("subs", ""):
            text = self.context.replaced(text)
        text = _CALLOUT.sub(self._callout, text) if style != "literal" else text
        self._callouts = 0
        mark = f' class="language-{escape(language)}"' if language else ""
        return f"<pre><code{mark}>{escape(text, quote=False)}\n</code></pre>"

    def literal(self, lines: list[str]) -> str:
        """Return lines to the letter."""
        return self.code(lines, BlockAttributes(["literal"]))

    def _callout(self, found: re.Match[str]) -> str:
        number = found[1] or found[2]
        self._callouts += 1
        return f"({self._callouts if number == '.' else number})"

    def noted(self, name: str, inner: str, about: BlockAttributes) -> str:
        """Return an admonition."""
        body = self.titled(about, inner)
        return f"<blockquote><p><strong>{name.capitalize()}</strong></p>{body}</blockquote>"

    def titled(self, about: BlockAttributes, html: str) -> str:
        """Return a block after its id and title."""
        title = self.inline.html(about.title) if about.title else ""
        anchor = ""
        if about.id:
            self.context.ids.setdefault(about.id, about.label or title)
            anchor = f'<a id="{escape(about.id)}"></a>'
        return f"{anchor}<p>{title}</p>{html}" if title else f"{anchor}{html}"

    def _macro(self, found: re.Match[str], about: BlockAttributes) -> str:
        name, target, inner = found.groups()
        if name == "toc":
            return ""
        if name == "image":
            return self.titled(about, f"<p>{self.inline.image(self.context.replaced(target), inner)}</p>")
        self.context.lost[f"macro {name}"] += 1
        return self.titled(about, f"<p>{self.inline.html(inner)}</p>" if inner and name not in _DRAWN else "")

    def _paragraph(self, lines: list[str], at: int, about: BlockAttributes) -> tuple[int, str]:
        end = at
        while end < len(lines) and lines[end].strip() and (end == at or not _breaks(lines[end])):
            end += 1
        own = [line for line in lines[at:end] if not line.startswith("//") or line.startswith("///")]
        if about.style in ("source", "listing", "literal") or about.style in _DRAWN:
            return end, self.titled(about, self.code(own, about))
        if lines[at][:1] in " \t" and about.style != "normal":
            least = min(len(line) - len(line.lstrip()) for line in own)
            return end, self.titled(about, self.literal([line[least:] for line in own]))
        text = "\n".join(own)
        if note := _ADMONITION.match(text):
            return end, self.noted(note[1], f"<p>{self.inline.html(note[2])}</p>", about)
        if about.style.upper() in _NOTES:
            return end, self.noted(about.style, f"<p>{self.inline.html(text)}</p>", about)
        if about.style in ("quote", "verse"):
            body = self._verse(own) if about.style == "verse" else f"<p>{self.inline.html(text)}</p>"
            return end, f"<blockquote>{self.titled(about, body)}{self._by(about)}</blockquote>"
        if about.style in ("discrete", "float") and (section := SECTION.match(text)):
            return end, self._section(len(section[1]), section[2], about)
        if section := SECTION.match(text):
            return end, f"<p><strong>{self.inline.html(section[2])}</strong></p>"
        if "hardbreaks" in about.options or "hardbreaks-option" in self.context.attributes:
            return end, self.titled(about, self._verse(own))
        if about.style == "comment":
            return end, ""
        return end, self.titled(about, f"<p>{self.inline.html(text)}</p>")


def _breaks(line: str) -> bool:
    """Return whether a line ends the paragraph above it."""
    return bool(_DELIMITER.match(line) or _ATTRIBUTES.match(line) or _ANCHOR.match(line))


def _closing(lines: list[str], at: int) -> int:
    """Return where a delimited block ends: the line of its delimiter, or the end of all."""
    mark = "```" if lines[at].startswith("```") else lines[at].rstrip()
    return next((end for end in range(at + 1, len(lines)) if lines[end].rstrip() == mark), len(lines))


def attribute_line(text: str, about: BlockAttributes) -> None:
    """Take what stands between the brackets above a block: `source,ruby,title="x"`, `#id.role%option`."""
    for place, part in enumerate(re.findall(r"\s*((?:[\w:.-]+\s*=\s*)?\"[^\"]*\"|[^,]*)(?:,|$)", text)):
        name, mark, value = part.partition("=")
        if mark and re.fullmatch(r"[\w:.-]+", name.strip()):
            value = value.strip().strip("\"'")
            match name.strip():
                case "id":
                    about.id = value
                case "title":
                    about.title = value
                case "reftext":
                    about.label = value
                case "options" | "opts":
                    about.options |= {one.strip() for one in value.split(",")}
                case other:
                    about.named[other] = value
        elif place == 0:
            for sign, short in re.findall(r"([#.%])([^#.%]*)", part):
                if sign == "#":
                    about.id = short
                elif sign == "%":
                    about.options.add(short)
                about.is_struck |= sign == "." and short in STRUCK_CLASSES
            style = re.split(r"[#.%]", part)[0].strip()
            if style or not about.positional:
                about.positional = [style, *about.positional[1:]]
        elif part.strip() or place < 4:
            about.positional.append(part.strip().strip('"'))
